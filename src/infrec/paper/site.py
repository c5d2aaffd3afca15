"""All pages of a results directory, rebuilt from its records: one for each experiment, and the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from infrec import drafts, paper
from infrec.errors import ArtifactError
from infrec.paper import published
from infrec.paper.experiment import BEYOND, Experiment, Findings
from infrec.paper.published import PAPER
from infrec.paper.records import FILE, makers
from infrec.paper.results import AT_EDGE, Results
from infrec.report import figures, html
from infrec.report.document import (
    UNTESTABLE,
    Block,
    Claim,
    ClaimGrid,
    Claims,
    Document,
    Fold,
    Items,
    Link,
    Links,
    Section,
    Table,
    Text,
)
from infrec.report.numbers import listed
from infrec.report.text import markdown

PAGE, MARKDOWN = "index.html", "README.md"
PAPER_SAYS, WE_SAY = "What the paper says, and what we found", "What is claimed, and what we found"
TWO_KINDS = (
    "Claims about summaries are judged twice: “here” on the paper's own kind (fractional, as published), and "
    "in the next column on ours."
)
# What must be known of a table in which these stand. Each was found with test figures in view.
REMARKS = {
    ("Distill-CF (0/1)", "Distill-CF (fractional)", "Distill-CF as data"): (
        "Our recipes of distillation (0/1 and fractional; not the published one) were found in about 450 "
        "runs with test figures in view: theirs are no fresh test, and somewhat optimistic."
    ),
    ("∞-AE-plus",): (
        "∞-AE-plus was designed in about 11,000 runs with test figures of ml-1m, magazine and douban-book in "
        "view: its settings are chosen on validation, its design is not, and its figures are somewhat "
        "optimistic."
    ),
}
OF_SAMPLES = (
    "netflix-sample is a sample (five-star ratings of some users); the paper's figures are of all of Netflix."
)
QUICK = "Some of this is a quick look (--quick): fewer steps, a smaller grid, one seed. It is no result."


def build(root: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Write the pages of these experiments and the index; return them.

    Args:
        root: The directory that holds a folder of records for each experiment.
        names: The experiments; by default all that have records.
    """
    written, listed = [], []
    for name in paper.NAMES:
        there = (root / name / FILE).is_file()
        if not there and not (names and name in names):
            continue
        experiment = paper.get(name)
        listed.append((experiment, *read(root, experiment)))
        if names is None or name in names:
            written += _write(root / name, document(*listed[-1]))
    return [_write(root, index(listed))[0], *written]


def read(root: Path, experiment: Experiment) -> tuple[Findings, Results]:
    """The findings of an experiment's records, without verdicts on a quick look, and the records' results."""
    results = Results.at(root, experiment.name)
    return experiment.findings(results), results


def _write(folder: Path, page: Document) -> list[Path]:
    """A document as HTML and as Markdown, and its figures as files."""
    svgs = figures.drawings(page)
    texts = {
        PAGE: html.render(page, svgs),
        MARKDOWN: markdown(page, svgs),
        **{f"{name}.svg": figures.standalone(svg) for name, svg in svgs.items()},
    }
    for name, text in texts.items():
        path = folder / name
        try:
            drafts.write_text(path, text)
        except OSError as failure:
            raise ArtifactError(f"cannot write {path}: {failure.strerror}; choose another place.") from None
    return [folder / name for name in texts]


# ---- an experiment's page ---------------------------------------------------------------------------------
def document(experiment: Experiment, findings: Findings, results: Results) -> Document:
    """The page of an experiment."""
    source = "Not in the paper." if experiment.source == BEYOND else f"The paper: {experiment.source}."
    claimed = WE_SAY if experiment.source == BEYOND else PAPER_SAYS
    parts: list[Section | Block] = [
        Text(experiment.about, "lead"),
        Text(f"{source} {_records(results)}".strip(), "quiet"),
        *(Text(text, "notice") for text in _notices(results)),
    ]
    if findings.claims:
        parts.append(Section(claimed, [*_on_kinds(findings.claims), Claims(findings.claims)]))
    tables = [replace(table, remarks=[*table.remarks, *remarks(table)]) for table in findings.tables]
    # The appendix's versions with every metric are long: they are there to be unfolded.
    parts += [
        Fold("All metrics", figure) if figure.name.endswith("-all") else figure for figure in findings.figures
    ]
    if tables and findings.figures:
        parts.append(Section("Tables", tables))
    else:
        parts += tables
    if findings.notes:
        parts.append(Section("How it was done, and where it differs", [Items(findings.notes, "notes")]))
    return Document(
        title=f"infrec: {experiment.title}",
        heading=experiment.title,
        parts=parts,
        footer=" · ".join(_footer(experiment, results)),
        up=("../index.html", "all experiments"),
        wide=True,
    )


def _on_kinds(claims: Sequence[Claim]) -> list[Block]:
    return [Text(TWO_KINDS, "quiet")] if Claims(claims).of_summaries else []


def remarks(table: Table) -> Iterator[str]:
    """Sentences that must stand below a table, for what is in it."""
    cells = [cell for row in table.rows for cell in row]
    texts = [table.caption, *table.head, *(cell for cell in cells if isinstance(cell, str))]
    values = [cell for cell in cells if not isinstance(cell, str)]
    for names, remark in REMARKS.items():
        if any(name in text for name in names for text in texts):
            yield remark
    if any("netflix-sample" in text for text in texts) and any(cell.paper is not None for cell in values):
        yield OF_SAMPLES
    if edges := sum(cell.note == AT_EDGE for cell in values):
        yield (
            f"In {edges} of these cells λ was chosen at the edge of its grid with one seed or more: a wider "
            "grid could give a better figure, unless quality only comes to a limit there."
        )


def _notices(results: Results) -> Iterator[str]:
    if not results.records:
        yield "There are no records yet: nothing was measured."
    if results.quick_datasets():
        yield QUICK
    if results.damaged:
        lines = "1 damaged line was" if results.damaged == 1 else f"{results.damaged} damaged lines were"
        yield f"{lines} left out of the records; run the experiment again."


def _records(results: Results) -> str:
    if not results.records:
        return ""
    count = len({record["seed"] for record in results.records})
    seeds = f"up to {count} seeds" if count > 1 else "one seed"
    return f"{_counted(results)} on {', '.join(results.datasets())}, {seeds} for what is random."


def _counted(results: Results) -> str:
    records = len(results.records)
    return f"{records:,} record{'s' * (records != 1)}" if records else "no records yet"


def _footer(experiment: Experiment, results: Results) -> Iterator[str]:
    yield f"Made by infrec from results/{experiment.name}/records.jsonl"
    yield f"again: infrec reproduce {experiment.name}"
    if records := results.records:
        yield f"measured on {', '.join(sorted({record['device'] for record in records}))}"
        yield f"by {', '.join(makers(records))}"
        if finished := max(record.get("finished", "") for record in records):
            yield f"last {finished}"
        if versions := records[-1]["versions"]:
            yield ", ".join(f"{name} {version}" for name, version in versions.items())


# ---- the index --------------------------------------------------------------------------------------------
def index(pages: Sequence[tuple[Experiment, Findings, Results]]) -> Document:
    """How every claim came out on every dataset, then the list of experiments, and the claims in words."""
    claims = [one for _, findings, _ in pages for one in findings.claims]
    about = (
        f"{PAPER}. Every number is measured by infrec under the published protocol; the paper's stand beside "
        "them, and where ours differ, the page says so."
    )
    links = []
    for experiment, findings, results in pages:
        quick = ["quick"] * bool(results.quick_datasets())
        facts = " · ".join([experiment.source, experiment.name, _counted(results), *quick])
        links.append(Link(experiment.title, experiment.name, facts, findings.claims))
    counted = [Text(line) for line in counts(pages) or ["Nothing has been measured yet."]]
    return Document(
        title="infrec: the paper, measured again",
        heading="The paper's tables and figures, measured again",
        parts=[
            *([ClaimGrid(links), Section("In numbers", counted)] if claims else counted),
            Section("The experiments", [Text(about, "quiet"), Links(links)]),
            *([_in_words(claims)] if claims else []),
        ],
        wide=True,
    )


def _in_words(claims: list[Claim]) -> Section:
    folded = Fold("All claims with their figures", Claims(claims))
    return Section("Every claim, in words", [*_on_kinds(claims), folded])


def counts(pages: Sequence[tuple[Experiment, Findings, Results]]) -> list[str]:
    """How claims came out: the paper's on the paper's datasets, the paper's on other data, and our own."""
    paper_s: list[Claim] = []
    elsewhere: list[Claim] = []
    own: list[Claim] = []
    for experiment, findings, _ in pages:
        for one in findings.claims:
            of_paper = paper_s if one.dataset in published.STATISTICS else elsewhere
            (own if experiment.source == BEYOND else of_paper).append(one)
    names = {
        "the paper's claims on the paper's datasets": paper_s,
        "the paper's claims on other data": elsewhere,
        "claims of our own": own,
    }
    return [_count(name, claims) for name, claims in names.items() if claims]


def _count(name: str, claims: Sequence[Claim]) -> str:
    """One sentence: every claim on every dataset is one, judged on the paper's kind of summary."""
    tally = Counter(one.verdict for one in claims)
    datasets = dict.fromkeys(one.dataset for one in claims if one.verdict != UNTESTABLE)
    where = f" ({listed(list(datasets))})" if datasets else ""
    return (
        f"Of {len(claims)} verdicts on {name}{where}, {tally['holds']} hold, {tally['does not hold']} do "
        f"not, {tally['undecided within the intervals']} are undecided within the intervals, and "
        f"{tally[UNTESTABLE]} cannot be tested here."
    )
