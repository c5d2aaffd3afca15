"""Nothing is called private or anonymous unless ε and δ stand beside it: in docs, code, cards and pages."""

from __future__ import annotations

import re
from pathlib import Path

import infrec

ROOT = Path(__file__).parent.parent.parent
SOURCE = Path(infrec.__file__).parent
WORD = re.compile(r"\b(private|privately|anonymous|anonymously|anonymi[sz]ed)\b", re.IGNORECASE)
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("results/**/*.md"),
        *(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".html", ".js", ".css", ".md")),
    }
    # The proof of (ε, δ), and the code that it is about.
    - {ROOT / "docs" / "guarantee.md"}
    - {SOURCE / "distillation" / name for name in ("private.py", "dp_sums.py", "dp_accounting.py")}
)
# HTTP's own words, about caches; Google's name of somebody without an account; the module of that name.
TERMS = re.compile(
    r"cache-control|no-store|gs://anonymous@|import [\w, ]*\bprivate\b|\bprivate\.\w", re.IGNORECASE
)


def offences(text: str) -> list[str]:
    """Paragraphs that use one of the words without both letters."""
    return [
        paragraph.strip()
        for paragraph in re.split(r"\n\s*\n", text)
        if WORD.search(paragraph)
        and not ("ε" in paragraph and "δ" in paragraph)
        and not TERMS.search(paragraph)
    ]


def test_no_page_promises_what_only_epsilon_and_delta_can() -> None:
    found = [
        f"{page}: {paragraph[:200]}"
        for page in PAGES
        for paragraph in offences(page.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_the_test_can_fail() -> None:
    assert offences("A summary is private.\n\nε = 3 and δ = 1e-6.")
    assert offences("These rows are anonymised; ε is not given.")
    assert not offences("It is private with ε = 3 and δ = 1e-6.")
    assert not offences("Privacy is a hard word, and so is de-anonymising.")
