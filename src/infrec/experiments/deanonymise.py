"""How many users are re-identified from a release: what the two figures of the appendix have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infrec.experiments.attack import IDENTIFIED, MISTAKEN, NAMED, STRANGERS
from infrec.experiments.base import Claim, Figure, Panel, Plan, Point, Series, Table, Value, claim
from infrec.experiments.cells import DISTILLED, Cell, Data, pairs
from infrec.experiments.names import name
from infrec.experiments.rows import Results, Row, Rows

USERS = 500
SAMPLED = "user-rns"
RELEASES = (SAMPLED, DISTILLED, f"{DISTILLED}-published")
NEARLY_EVERYBODY, NOBODY = 90.0, 1.0  # percent
# The paper, in words: 90 % revealed and no noise on Douban.
PUBLISHED = {("douban", SAMPLED): 96.43, ("douban", f"{DISTILLED}-published"): 0.86}


@dataclass(frozen=True)
class Level:
    """What the attacker's copy is like. reveal: share of each history. noise: percent of items flipped."""

    reveal: float
    noise: float

    @property
    def label(self) -> str:
        return f"{100 * self.reveal:g}% known, {self.noise:g}% flipped"


def cells(plan: Plan, levels: Sequence[Level], of_sample: Sequence[Level] = ()) -> list[Cell]:
    """Each release at each level; the sample at further ones."""
    out = []
    for dataset in plan.datasets:
        users = plan.budgets(dataset, (USERS,))[-1]
        releases = [Data(SAMPLED, users), plan.distilled(users)]
        releases += [] if plan.quick else [plan.distilled(users, "published")]
        for release in releases:
            for level in (*levels, *(of_sample if release.source == SAMPLED else ())):
                known = pairs(reveal=level.reveal, noise=level.noise)
                out.append(Cell(dataset, 0, release, label=level.label, attack=known))
    return plan.grid(out)


# ---- reading the records ---------------------------------------------------------------------------------
def found(rows: Rows, source: str, level: Level, metric: str = IDENTIFIED) -> Row | None:
    """What the attack on a release found: by matching, or with ∞-AE."""
    model = "matching" if source == SAMPLED else "infinite-ae"
    return rows.get(source=source, label=level.label, model=model, metric=metric)


def by_popularity(rows: Rows, level: Level) -> Row | None:
    """What guessing the popular items finds where there are no rows to match."""
    return rows.get(source=DISTILLED, label=level.label, model="poprec", metric=IDENTIFIED)


def figures(
    stem: str, caption: str, x: str, results: Results, levels: Sequence[Level], at: Callable[[Level], float]
) -> list[Figure]:
    """One panel for each dataset; no figure where nothing was measured."""
    panels = []
    for dataset in results.datasets():
        rows = results.rows.where(dataset=dataset)
        series = []
        for source in (*RELEASES, "poprec"):
            line = [
                (at(level), by_popularity(rows, level) if source == "poprec" else found(rows, source, level))
                for level in levels
            ]
            points = tuple(Point(x, r.value, r.low, r.high, r.seeds) for x, r in line if r is not None)
            series += [Series(source, points)] if points else []
        panels.append((Panel(dataset, x, "users re-identified (%)", tuple(series)),))
    return [Figure(stem, caption, tuple(panels))] if panels else []


def table(dataset: str, rows: Rows, levels: Sequence[Level]) -> Table:
    """Levels down, releases across; then how sure the attack is. What was not measured has no place."""
    there = [source for source in RELEASES if rows.where(source=source)]
    lines: list[tuple[str | Value, ...]] = []
    for level in levels:
        if not rows.where(label=level.label):
            continue
        at_most = level == Level(0.9, 0.0)
        line: list[str | Value] = [level.label]
        line += [
            _value(found(rows, source, level), PUBLISHED.get((dataset, source)) if at_most else None)
            for source in there
        ]
        line.append(_value(by_popularity(rows, level)))
        line += [_value(found(rows, SAMPLED, level, metric)) for metric in (MISTAKEN, STRANGERS)]
        line.append(_value(found(rows, DISTILLED, level, NAMED)))
        lines.append(tuple(line))
    head = (
        "attacker's copy",
        *(name(source) for source in there),
        "by popularity alone",
        f"{name(SAMPLED)}: taken for another",
        f"{name(SAMPLED)}: strangers claimed",
        f"{name(DISTILLED)}: missing items named",
    )
    users = rows.where(source=SAMPLED).every("users")
    size = f" of {users[0]:,} users" if users else ""
    return Table(f"{dataset}: users re-identified from a release{size} (%).", head, tuple(lines))


def _value(row: Row | None, paper: float | None = None) -> Value:
    if row is None:
        return Value(IDENTIFIED, None, paper=paper)
    return Value(row.metric, row.value, row.low, row.high, paper)


# ---- claims ----------------------------------------------------------------------------------------------
def nothing_against_everybody(dataset: str, rows: Rows, level: Level) -> Claim:
    text = "Nobody is re-identified from a distilled release, while a sampled one gives nearly everybody away"
    sampled = found(rows, SAMPLED, level)
    made = [(source, found(rows, source, level)) for source in RELEASES[1:]]
    there = [(source, row) for source, row in made if row is not None]
    if sampled is None or not there:
        return claim(text, dataset, None, "nothing measured yet.")
    parts = [f"{name(source)} {row.value:.2f} %" for source, row in [(SAMPLED, sampled), *there]]
    popular = by_popularity(rows, level)
    alone = f"; popularity alone would name the missing items of {popular.value:.2f} %" if popular else ""
    return claim(
        text,
        dataset,
        sampled.value >= NEARLY_EVERYBODY and all(row.value <= NOBODY for _, row in there),
        f"with {level.label}: {', '.join(parts)}{alone}.",
    )


NOTES = (
    "The attacker's copy has that share of each user's items, drawn at random (at least one known, at least "
    "one missing), then that share of all items flipped for every user. A sampled release is matched by the "
    "Narayanan–Shmatikov score, which counts rare items more, divided by a power of the released row's own "
    "weight; a match counts when the best row stands out by 3 standard deviations and is the right one. "
    "“Strangers” are users who are not in the release: claiming one is a mistake.",
    "A distilled release has nobody to match. As in the paper, a user counts as re-identified when ∞-AE, "
    "fitted on the summary and told how many items are missing, names exactly these. That is a harder task "
    "than matching, so the two columns do not measure the same thing, and a user of whom one item is missing "
    "may be guessed by popularity alone. What a summary gives away otherwise is for `infrec audit` to say.",
)
