"""Pieces of every HTML page: the document around it, figures, tables, parts to unfold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

NO_PLOTS = (
    "The plots need matplotlib, which is not installed here: pip install 'infrec[plot]'. "
    "The tables say the same."
)


def document(title: str, body: Iterable[str], styles: Sequence[str] = ("page.css",)) -> str:
    """A page in one file: its style within, nothing from elsewhere. Empty parts are left out."""
    folder = files("infrec.report")
    style = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in styles)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def figure(name: str, alt: str, svg: str, caption: str) -> str:
    return (
        f'<figure aria-labelledby="{name}-caption">'
        f'<div class="plot" role="img" aria-label="{escape(alt)}">{svg}</div>'
        f'<figcaption id="{name}-caption">{escape(caption)}</figcaption></figure>'
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Cells of `rows` are HTML already; the head and the caption are text."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def details(table: str, *, opened: bool) -> str:
    return table if opened else f"<details><summary>The same as a table</summary>{table}</details>"
