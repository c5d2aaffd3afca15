"""Lists that are not all alike, as `infrec evaluate` shows what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec import drafts, machine
from infrec.cli import console

if TYPE_CHECKING:
    from infrec.evaluation.trade import Trade


def trades(documents: list[dict[str, Any]]) -> list[Trade]:
    """The trades in the documents of models; one that could not run has none."""
    from infrec.evaluation.trade import Step, Trade

    return [
        Trade(**{**each["trade"], "steps": tuple(Step(**step) for step in each["trade"]["steps"])})
        for each in documents
        if "trade" in each
    ]


def show(documents: list[dict[str, Any]]) -> None:
    """A sentence and a table for each model."""
    from infrec.report import terminal, trade

    for one in trades(documents):
        console.say(f"\n{trade.headline(one)}")
        console.out().print(terminal.table(trade.table(one)))


def write_report(path: Path, documents: list[dict[str, Any]], data: str, about: str) -> None:
    """The page of all models, where any could run.

    Args:
        path: The file.
        documents: What is known of each model.
        data: The name of the data.
        about: The data, the split and the protocol in a sentence.
    """
    from infrec.report import html, trade

    if found := trades(documents):
        facts = {"device": machine.device(), "infrec": str(machine.versions()["infrec"])}
        drafts.write_text(path, html.render(trade.document(found, data, about, facts)))
        console.saved(path)
