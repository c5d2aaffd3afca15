"""The page of an experiment, and the index of all: made from findings alone, each whole in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from infrec.paper import figures as drawings
from infrec.paper.experiment import BEYOND, Experiment
from infrec.paper.published import PAPER
from infrec.report import html
from infrec.report.document import Claim, Figure, Findings, Table, Value
from infrec.report.html import NO_PLOTS

STYLES = ("page.css", "experiment.css")
VERDICTS = {"holds": "holds", "does not hold": "fails", "cannot be tested here": "open"}
PAPER_SAYS, WE_SAY = "What the paper says, and what we found", "What is claimed, and what we found"
FIGURE_HEAD = ("panel", "series", "x", "value", "low", "high", "seeds")


@dataclass(frozen=True)
class Facts:
    """Facts about the records behind a page."""

    records: int = 0
    damaged: int = 0
    quick: bool = False
    seeds: int = 0
    datasets: Sequence[str] = ()
    devices: Sequence[str] = ()
    versions: Mapping[str, str] | None = None
    finished: str = ""


def page(experiment: Experiment, found: Findings, facts: Facts, svgs: Mapping[str, str]) -> str:
    """svgs: each figure's drawing by its name; none where matplotlib is not installed."""
    body = [
        '<nav><a href="../index.html">all experiments</a></nav>',
        f"<h1>{escape(experiment.title)}</h1>",
        f'<p class="lead">{escape(experiment.about)}</p>',
        f'<p class="quiet">{escape(source(experiment))} {escape(_records(facts))}</p>',
        _notices(facts, found, svgs),
        claims(found.claims, WE_SAY if experiment.source == BEYOND else PAPER_SAYS),
        *(_figure(figure, svgs.get(figure.name)) for figure in found.figures),
        "<h2>Tables</h2>" if found.tables and found.figures else "",
        *(table(each) for each in found.tables),
        _notes(found),
        _footer(experiment, facts),
    ]
    return html.document(f"infrec: {experiment.title}", body, STYLES)


def index(pages: Sequence[tuple[Experiment, Findings, Facts]]) -> str:
    """The list of experiments with how their claims came out, and every claim in one table."""
    cards = "".join(_card(*each) for each in pages)
    every = [one for _, found, _ in pages for one in found.claims]
    tested = [one for one in every if one.verdict != "cannot be tested here"]
    held = sum(one.verdict == "holds" for one in tested)
    lead = (
        f"Of {len(tested)} claims that these records can test, {held} hold and {len(tested) - held} do not."
        if tested
        else "Nothing has been measured yet."
    )
    body = [
        "<h1>The paper's tables and figures, measured again</h1>",
        f'<p class="lead">{lead}</p>',
        f'<p class="quiet">{escape(PAPER)}. Every number is measured by infrec under the published protocol; '
        "the paper's stand beside them, and where ours differ, the page says so.</p>",
        f'<div class="cards">{cards}</div>',
        claims(every, "Every claim"),
    ]
    return html.document("infrec: the paper, measured again", body, STYLES)


# ---- parts -----------------------------------------------------------------------------------------------
def claims(of: Sequence[Claim], heading: str) -> str:
    if not of:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(one.text)}</th><td>{escape(one.dataset)}</td>'
        f'<td class="{VERDICTS[one.verdict]}">{escape(one.verdict)}</td>'
        f"<td>{escape(one.figures).replace(' %', '&nbsp;%')}</td></tr>"
        for one in of
    )
    head = "".join(f'<th scope="col">{word}</th>' for word in ("claim", "data", "here", "figures"))
    return (
        f'<h2>{heading}</h2><div class="scroll"><table class="claims"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def source(experiment: Experiment) -> str:
    return "Not in the paper." if experiment.source == BEYOND else f"The paper: {experiment.source}."


def _figure(figure: Figure, svg: str | None) -> str:
    data = _as_table(figure)
    if svg is None:
        return data
    alt = "; ".join(
        f"{panel.title}, {panel.y}: " + ", ".join(drawings.called(series.name) for series in panel.series)
        for panel in figure.panels
    )
    # The appendix's versions with every metric are long: they are there to be unfolded.
    whole = html.figure(figure.name, alt, drawings.inline(figure, svg), figure.caption) + data
    if figure.name.endswith("-all"):
        return f"<details><summary>All metrics</summary>{whole}</details>"
    return whole


def _as_table(figure: Figure) -> str:
    """Every number of a figure, so that it can be read, copied and checked."""
    rows = [
        [
            escape(f"{panel.title}: {panel.y}"),
            escape(drawings.called(series.name)),
            f"{point.x:g}",
            f"{point.value:.6g}",
            f"{point.low:.6g}",
            f"{point.high:.6g}",
            f"{point.seeds}",
        ]
        for panel in figure.panels
        for series in panel.series
        for point in series.points
    ]
    shown = html.table(FIGURE_HEAD, rows, f"The data of the figure {figure.name}.")
    return html.details(shown, opened=False)


def table(of: Table) -> str:
    rows = [[_cell(cell) for cell in row] for row in of.rows]
    ranges = any(isinstance(cell, Value) and _has_interval(cell) for row in of.rows for cell in row)
    note = " Small ranges are 95 % intervals over users." if ranges else ""
    return html.table(of.head, rows, of.caption + note)


def _has_interval(cell: Value) -> bool:
    return cell.low is not None and cell.high is not None and cell.low != cell.high


def _cell(cell: str | Value) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text = escape(written(cell.metric, cell.value))
    if cell.best:
        text = f"<strong>{text}</strong>"
    if cell.low is not None and cell.high is not None and cell.low != cell.high:
        digits = 3 if cell.metric == "AUC" else 1
        text += f"<small>{cell.low:.{digits}f}–{cell.high:.{digits}f}</small>"
    if cell.paper is not None:
        text += f'<small class="paper">{escape(beside(cell).removeprefix("paper "))}</small>'
    return text


def written(metric: str, value: float | None) -> str:
    """A number as its metric is written: AUC with four decimals, counts whole, the rest with two."""
    if value is None:
        return "–"
    if metric in ("users", "items", "interactions"):
        return f"{value:,.0f}"
    return f"{value:.4f}" if metric == "AUC" else f"{value:.2f}"


def beside(cell: Value) -> str:
    """`paper 31.51 (+0.40)`."""
    text = f"paper {written(cell.metric, cell.paper)}"
    if cell.value is None or cell.paper is None or cell.metric in ("users", "items", "interactions"):
        return text
    apart = cell.value - cell.paper
    digits = 4 if cell.metric == "AUC" else 2
    sign = "±" if round(apart, digits) == 0 else "−" if apart < 0 else "+"
    return f"{text} ({sign}{abs(apart):.{digits}f})"


def counted(records: int) -> str:
    return f"{records:,} record{'s' * (records != 1)}"


def _notices(facts: Facts, found: Findings, svgs: Mapping[str, str]) -> str:
    out = []
    if not facts.records:
        out.append("There are no records yet: nothing was measured.")
    if facts.quick:
        out.append(
            "Some of this is a quick look (--quick): fewer steps, a smaller grid, one seed. It is no result."
        )
    if facts.damaged:
        lines = "1 damaged line was" if facts.damaged == 1 else f"{facts.damaged} damaged lines were"
        out.append(f"{lines} left out of the records; run the experiment again.")
    if found.figures and not svgs:
        out.append(NO_PLOTS)
    return "".join(f'<p class="notice">{escape(text)}</p>' for text in out)


def _notes(found: Findings) -> str:
    if not found.notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    return f'<h2>How it was done, and where it differs</h2><ul class="notes">{items}</ul>'


def _records(facts: Facts) -> str:
    if not facts.records:
        return ""
    seeds = f"up to {facts.seeds} seeds" if facts.seeds > 1 else "one seed"
    return f"{counted(facts.records)} on {', '.join(facts.datasets)}, {seeds} for what is random."


def _card(experiment: Experiment, found: Findings, facts: Facts) -> str:
    tally = [
        f'<span class="{mark}">{count} {escape(verdict)}</span>'
        for verdict, mark in VERDICTS.items()
        if (count := sum(one.verdict == verdict for one in found.claims))
    ]
    state = counted(facts.records) if facts.records else "no records yet"
    return (
        f'<a href="{experiment.name}/index.html"><strong>{escape(experiment.title)}</strong>'
        f'<span class="quiet">{escape(experiment.source)} · {escape(experiment.name)} · {state}'
        f'{" · quick" if facts.quick else ""}</span><div class="tally">{" · ".join(tally)}</div></a>'
    )


def _footer(experiment: Experiment, facts: Facts) -> str:
    versions = ", ".join(f"{key} {value}" for key, value in (facts.versions or {}).items())
    parts = [
        f"Made by infrec from results/{experiment.name}/records.jsonl",
        f"again: infrec reproduce {experiment.name}",
        f"measured on {', '.join(facts.devices)}" if facts.devices else "",
        f"last {facts.finished}" if facts.finished else "",
        versions,
    ]
    return f"<footer>{escape(' · '.join(part for part in parts if part))}</footer>"
