"""A document as plain records: sections of text, tables, figures and claims.

`html` and `text` (Markdown, a terminal) write it down, `figures` draws its figures, `numbers` says how a
number is written. Cards, audits, comparisons and the pages of experiments are all documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from infrec.report.numbers import number

if TYPE_CHECKING:
    from infrec.evaluation.comparison import Recommended

Verdict = Literal["holds", "does not hold", "undecided within the intervals", "cannot be tested here"]
UNTESTABLE: Verdict = "cannot be tested here"


class Measured(Protocol):
    """Numbers by metric, and 95 % intervals of those that are means over users."""

    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def intervals(self) -> Mapping[str, tuple[float, float]]: ...


# ---- figures ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Point:
    """One value of a figure: where, how much, its interval, and from how many seeds."""

    x: float
    value: float
    low: float
    high: float
    seeds: int = 1

    @classmethod
    def at(cls, x: float, value: float) -> Point:
        """A value without an interval."""
        return cls(x, value, value, value)

    @classmethod
    def of(cls, x: float, measured: Measured, metric: str) -> Point:
        """A metric of what was measured."""
        value = measured.metrics[metric]
        return cls(x, value, *measured.intervals.get(metric, (value, value)))


@dataclass(frozen=True)
class Series:
    """Points that belong together. name: a model, a source, or both (`ease|user-rns`), else plain words."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Args:
        title: What stands above the panel.
        x: The name of the x axis.
        y: The name of the y axis.
        series: What is drawn; of `dots`, each point is a row, its value lies on the horizontal axis.
        log_x: Whether the x axis is logarithmic.
        ticks: Names of the places on the x axis; of `dots`, the names of the rows.
        line: A reference value with its name.
        kind: Curves with bands, dots with intervals, or bars.
        log_y: Whether both axes are logarithmic and show shares in percent.
        from_zero: Whether the y axis begins at 0.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    ticks: Sequence[tuple[float, str]] = ()
    line: tuple[float, str] | None = None
    kind: Literal["curves", "dots", "bars"] = "curves"
    log_y: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels in rows, one legend for all. A single column of panels is laid out in rows of three.

    Args:
        name: Of its file and of its ids on a page.
        caption: The sentences below it.
        rows: The panels.
        same_y: Whether the panels of a row are compared with each other, so that their y axes are the same.
        wide: Whether few panels take the whole width too.
        alt: The figure in words; by default its panels and series are named.
        table: Its numbers as a reader wants them, to be unfolded; by default every point is listed.
        table_open: Whether the table stands there unfolded.
    """

    name: str
    caption: str
    rows: Sequence[Sequence[Panel]]
    same_y: bool = False
    wide: bool = False
    alt: str = ""
    table: Table | None = None
    table_open: bool = False

    def __post_init__(self) -> None:
        if len(self.rows) > 1 and all(len(row) == 1 for row in self.rows):
            every = [row[0] for row in self.rows]
            object.__setattr__(self, "rows", [every[at : at + 3] for at in range(0, len(every), 3)])

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row]


# ---- tables and claims ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Value:
    """A measured number in a table.

    Args:
        metric: What it is; decides how it is written (`numbers.number`).
        value: The number; None where it is not known.
        low: The lower end of its 95 % interval.
        high: The upper end.
        paper: The paper's number, to stand beside it.
        best: Whether it is stressed.
        note: A few words below it.
    """

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    best: bool = False
    note: str = ""

    @classmethod
    def of(cls, measured: Measured, metric: str, *, best: bool = False, note: str = "") -> Value:
        """A metric of what was measured; empty where it is not known."""
        low, high = measured.intervals.get(metric, (None, None))
        return cls(metric, measured.metrics.get(metric), low, high, best=best, note=note)


Cell = str | Value


@dataclass(frozen=True)
class Table:
    """Cells under a head. ranges: what the intervals are, where a page shows them. remarks: stand below."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ranges: str = "Small ranges are 95 % intervals over users."
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Claim:
    """Something the paper says in words, and what the records say to it, with figures.

    Args:
        text: What is claimed.
        dataset: The data that it is tested on.
        verdict: Of a claim about summaries, by the paper's own kind of them.
        figures: The numbers that say so.
        ours: By our kind of summaries, of a claim about summaries.
    """

    text: str
    dataset: str
    verdict: Verdict
    figures: str
    ours: Verdict | None = None


# ---- other blocks -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Text:
    """A paragraph. kind: `lead` for the result in a sentence, `good`, `bad` or `unsure` for a verdict,
    `quiet` for small print, `notice` for a flaw of the page, `note` and `warning` for what not to miss."""

    text: str
    kind: Literal["", "lead", "good", "bad", "unsure", "quiet", "notice", "note", "warning"] = ""


@dataclass(frozen=True)
class Pairs:
    """Words and what they mean, or facts by name."""

    pairs: Mapping[str, str]


@dataclass(frozen=True)
class Items:
    """A list of short texts. kind: `tags` stand side by side, `notes` are sentences."""

    items: Sequence[str]
    kind: Literal["", "tags", "notes"] = ""


@dataclass(frozen=True)
class Tiles:
    """A few numbers in large print: (name, number now, number before)."""

    tiles: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Matrix:
    """A matrix as a picture: rows of hexadecimal digits, one a cell, 0 (empty) to f (weight 1)."""

    rows: Sequence[str]
    alt: str
    caption: str


@dataclass(frozen=True)
class Claims:
    """Claims, one below the other; where some are about summaries, with a column for ours."""

    claims: Sequence[Claim]

    @property
    def head(self) -> tuple[str, ...]:
        """The heads of the columns."""
        ours = ("on our summaries",) if self.of_summaries else ()
        return ("claim", "data", "here", *ours, "figures")

    @property
    def of_summaries(self) -> bool:
        """Whether some are about summaries."""
        return any(one.ours for one in self.claims)

    def verdicts(self, one: Claim) -> tuple[Verdict | None, ...]:
        """The verdicts of a claim, by column."""
        return (one.verdict, one.ours) if self.of_summaries else (one.verdict,)


@dataclass(frozen=True)
class Explanations:
    """Recommended items, each with the parts that its score is made of."""

    entries: Sequence[Recommended]

    def mark(self, entry: Recommended) -> str:
        """A remark behind the name of an item."""
        return "✓ held out: this user did choose it" if entry.held_out else ""


@dataclass(frozen=True)
class Link:
    """A page in a folder of its own, with facts about it and the claims that it decides."""

    title: str
    folder: str
    facts: str
    claims: Sequence[Claim] = ()


@dataclass(frozen=True)
class Links:
    links: Sequence[Link]


@dataclass(frozen=True)
class ClaimGrid:
    """Claims × datasets: one mark each, which leads to the page with the figures.

    Args:
        pages: The pages, each with its claims.
    """

    pages: Sequence[Link]

    @property
    def datasets(self) -> list[str]:
        """The columns, in the order in which claims name them."""
        return list(dict.fromkeys(one.dataset for page in self.pages for one in page.claims))

    @property
    def rows(self) -> Iterator[tuple[Link, list[tuple[str, list[Claim | None]]]]]:
        """Each page with its claims, and for each claim what was found on each dataset."""
        for page in self.pages:
            found = {(one.text, one.dataset): one for one in page.claims}
            texts = dict.fromkeys(one.text for one in page.claims)
            yield page, [(text, [found.get((text, name)) for name in self.datasets]) for text in texts]


@dataclass(frozen=True)
class Fold:
    """A block to be unfolded."""

    summary: str
    block: Block


Block = (
    Text | Pairs | Items | Tiles | Matrix | Table | Figure | Claims | ClaimGrid | Explanations | Links | Fold
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    heading: str
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Document:
    """A page, whole by itself.

    Args:
        title: Of the window.
        heading: The first line.
        parts: Sections, and blocks that stand without a heading.
        footer: Where it comes from, in small print.
        up: The address and the name of the page above this one.
        wide: Whether its tables and figures need a wide page.
    """

    title: str
    heading: str
    parts: Sequence[Section | Block]
    footer: str = ""
    up: tuple[str, str] | None = None
    wide: bool = False

    @property
    def figures(self) -> Iterator[Figure]:
        """Every figure, in order."""
        for part in self.parts:
            for block in part.blocks if isinstance(part, Section) else (part,):
                inner = block.block if isinstance(block, Fold) else block
                if isinstance(inner, Figure):
                    yield inner


# ---- measurements beside each other -----------------------------------------------------------------------
class Dot(NamedTuple):
    """One measurement.

    Args:
        place: Where its row is, from the top.
        name: Of its row.
        series: What it is drawn as.
        measured: The metrics.
        words: Its name where the figure is told in words.
    """

    place: float
    name: str
    series: str
    measured: Measured
    words: str


def dot_figure(
    name: str, caption: str, dots: Sequence[Dot], series: Sequence[str], metrics: Sequence[str], table: Table
) -> Figure:
    """A figure of measurements beside each other: a panel for each metric, a dot with its interval for each.

    Args:
        name: Of its file and of its ids on a page.
        caption: The sentences below it.
        dots: The measurements.
        series: What they are drawn as, in order.
        metrics: The panels; a metric that some measurement lacks has none.
        table: All figures, below it.
    """
    shared = [metric for metric in metrics if all(metric in dot.measured.metrics for dot in dots)]
    ticks = [(float(dot.place), dot.name) for dot in dots]

    def panel(metric: str) -> Panel:
        points = {
            one: [Point.of(dot.place, dot.measured, metric) for dot in dots if dot.series == one]
            for one in series
        }
        return Panel(
            f"{metric} (%)", "", "", [Series(*one) for one in points.items()], ticks=ticks, kind="dots"
        )

    alt = "; ".join(
        f"{dot.words}: " + ", ".join(f"{one} {number(one, dot.measured.metrics[one])}" for one in shared)
        for dot in dots
    )
    panels = [[panel(metric) for metric in shared]]
    return Figure(name, caption, panels, wide=True, alt=alt, table=table, table_open=True)
