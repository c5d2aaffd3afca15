"""Who is re-identified from a release: by matching where it has real users, by prediction where it has none.

The paper's appendix: the attacker has a copy of the data with names in it, of which only a part of each
history is left and in which a share of all items is flipped for everybody. Against a sample, a user is found
when the Narayanan–Shmatikov matching claims the right row. A summary has no such row: there, a user counts as
found when ∞-AE, fitted on the summary and told how many items are missing from the copy, names exactly these.
What is popular names some of them as well, whatever was released: that is the second line of such a record.

Two figures of the appendix: the attacker's copy is noisy; more and more of each history is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.paper.cells import DISTILLED, Cell, Data, pairs
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.noisy_data import flip
from infrec.paper.results import Results, Row, Rows
from infrec.paper.views import pivot, point, series, value
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.report.document import Claim, Figure, Findings, Panel, Table, Value, claim
from infrec.report.numbers import label

if TYPE_CHECKING:
    from numpy.typing import NDArray

IDENTIFIED, MISTAKEN, STRANGERS, NAMED = "identified", "mistaken", "strangers", "named"

USERS = 500
SAMPLED = "user-rns"
RELEASES = (SAMPLED, DISTILLED, f"{DISTILLED}-published")
NEARLY_EVERYBODY, NOBODY = 90.0, 1.0  # percent
# The paper, in words: 90 % revealed and no noise on Douban.
PUBLISHED = {("douban", SAMPLED): 96.43, ("douban", f"{DISTILLED}-published"): 0.86}


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

BANDS = "Bands are 95 % intervals over users; PopRec names what is popular in the summary."
REVEAL = 0.5
NOISES = (0.0, 0.5, 1.0, 2.0, 5.0)
QUICK_NOISES = (0.0, 1.0, 5.0)

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
QUICK_SHARES = (0.1, 0.5, 0.9)


def measured(cell: Cell, log: Interactions, released: Interactions, progress: Progress = silent) -> list[Any]:
    """The attack of a cell on what was released of a log."""
    level = dict(cell.attack)
    reveal, noise = float(level["reveal"]), float(level["noise"])
    if cell.data.source == DISTILLED:
        return predicted(log, released, reveal, noise, seed=cell.seed)
    return matched(log, released, reveal, noise, seed=cell.seed, progress=progress)


def copy_of(log: Interactions, reveal: float, noise: float, *, seed: int) -> sp.csr_array:
    """The attacker's copy of each user's history: a share of the items, then flips; 0/1.

    Of everybody at least one item is known and, unless everything is, one is not (where there are two).
    """
    from infrec.privacy.groups import parted

    n = log.user_counts
    known = n if reveal >= 1 else np.clip(np.round(reveal * n).astype(np.int64), 1, np.maximum(1, n - 1))
    shown, _ = parted(log.matrix, known, generator(seed, "attacker's copy"))
    return flip(log.with_matrix(shown), noise, seed=seed).matrix


def matched(
    log: Interactions,
    released: Interactions,
    reveal: float,
    noise: float,
    *,
    seed: int,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """A release of real users, known by their ids here alone: the attacker sees only the rows.

    strangers: as many users who are not in the release, where there are any; claiming one is a mistake.
    """
    from infrec.privacy import match

    rows = log.users.positions(released.users.ids)
    others = np.setdiff1d(np.arange(log.n_users), rows)
    if len(others) > len(rows):
        others = np.sort(generator(seed, "strangers").choice(others, len(rows), replace=False))
    own, theirs = (copy_of(log.select_users(who), reveal, noise, seed=seed) for who in (rows, others))
    found = match(own, released.matrix, progress=progress)
    truth = np.arange(len(rows))
    shares = {IDENTIFIED: found.correct(truth), MISTAKEN: found.wrong(truth)}
    if len(others):
        shares[STRANGERS] = match(theirs, released.matrix, progress=progress).accepted
    return [line("matching", shares)]


def predicted(
    log: Interactions, released: Interactions, reveal: float, noise: float, *, seed: int
) -> list[dict[str, Any]]:
    """A release of synthetic users: can the missing items of each real one be named, all of them?"""
    from infrec.models import InfiniteAE
    from infrec.privacy.reconstruction import hits

    log = log.select_users(np.flatnonzero(log.user_counts >= 2))
    given = copy_of(log, reveal, noise, seed=seed)
    rest = log.matrix.copy()
    rest.data = np.ones_like(rest.data)
    rest = sp.csr_array(rest - rest.multiply(given != 0))
    rest.eliminate_zeros()
    asked = np.flatnonzero(np.diff(rest.indptr))
    given, rest = sp.csr_array(given[asked]), sp.csr_array(rest[asked])
    reg = getattr(released, "reg", None)  # the λ that the summary itself brings
    model = InfiniteAE(**({} if reg is None else {"reg": reg})).fit(released)
    counts = np.asarray(released.matrix.sum(axis=0)).ravel()
    by = {
        "infinite-ae": hits(given, rest, model=model),
        "poprec": hits(given, rest, counts=counts),
    }
    return [line(name, {IDENTIFIED: shares == 1, NAMED: shares}) for name, shares in by.items()]


def line(model: str, shares: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Means over users in percent; of those that are yes or no, with Clopper–Pearson intervals."""
    from infrec.privacy.roc import rate

    metrics, intervals = {}, {}
    for metric, values in shares.items():
        metrics[metric] = 100.0 * float(values.mean()) if len(values) else None
        if values.dtype == bool and len(values):
            found = rate(float(values.sum()), len(values))
            intervals[metric] = [100.0 * found.low, 100.0 * found.high]
    return {"model": model, "settings": {}, "metrics": metrics, "intervals": intervals}


@dataclass(frozen=True)
class Level:
    """Quality of the attacker's copy. reveal: share of each history. noise: percent of items flipped."""

    reveal: float
    noise: float

    @property
    def label(self) -> str:
        return f"{100 * self.reveal:g}% known, {self.noise:g}% flipped"


def attack_cells(plan: Plan, levels: Sequence[Level], of_sample: Sequence[Level] = ()) -> list[Cell]:
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
    """The row of an attack on a release: by matching, or with ∞-AE. poprec: of guessing popular items."""
    if source == "poprec":
        return rows.get(source=DISTILLED, label=level.label, model="poprec", metric=metric)
    model = "matching" if source == SAMPLED else "infinite-ae"
    return rows.get(source=source, label=level.label, model=model, metric=metric)


def findings(
    stem: str,
    results: Results,
    levels: Sequence[Level],
    axis: tuple[str, Callable[[Level], float]],
    caption: str,
    claims: Sequence[Callable[[str, Rows], Claim]],
    also: Sequence[Level] = (),
) -> Findings:
    """A panel, a table and the claims of each dataset.

    Args:
        stem: The name of the figure.
        results: The records.
        levels: Those drawn.
        axis: The name of the x axis, and the place of a level on it.
        caption: Of the figure.
        claims: What is tested on each dataset.
        also: Further levels of the tables.
    """
    panels, tables, verdicts = [], [], []
    name, place = axis
    for dataset in results.datasets():
        rows = results.rows.where(dataset=dataset)
        points = {
            source: [point(place(level), row) for level in levels if (row := found(rows, source, level))]
            for source in (*RELEASES, "poprec")
        }
        panels.append((Panel(dataset, name, "users re-identified (%)", series(points)),))
        tables.append(table(dataset, rows, (*also, *levels)))
        verdicts += [check(dataset, rows) for check in claims]
    figures = [Figure(stem, f"{caption} {BANDS}", tuple(panels))] if panels else []
    return Findings(verdicts, figures, tables, NOTES)


def table(dataset: str, rows: Rows, levels: Sequence[Level]) -> Table:
    """Levels down, releases across; then how sure the attack is. What was not measured has no place."""
    there = [source for source in RELEASES if rows.where(source=source)]
    columns: dict[str, tuple[str, str]] = {label(source): (source, IDENTIFIED) for source in there}
    columns |= {
        "by popularity alone": ("poprec", IDENTIFIED),
        f"{label(SAMPLED)}: taken for another": (SAMPLED, MISTAKEN),
        f"{label(SAMPLED)}: strangers claimed": (SAMPLED, STRANGERS),
        f"{label(DISTILLED)}: missing items named": (DISTILLED, NAMED),
    }

    def line(level: Level) -> Callable[[tuple[str, str]], Value]:
        def cell(column: tuple[str, str]) -> Value:
            source, metric = column
            published = PUBLISHED.get((dataset, source)) if level == Level(0.9, 0.0) else None
            paper = published if metric == IDENTIFIED else None
            return replace(value(metric, found(rows, source, level, metric)), paper=paper)

        return cell

    measured = [level for level in levels if rows.where(label=level.label)]
    users = rows.where(source=SAMPLED).every("users")
    size = f" of {users[0]:,} users" if users else ""
    caption = f"{dataset}: users re-identified from a release{size} (%)."
    return pivot(caption, "attacker's copy", columns, [(level.label, line(level)) for level in measured])


# ---- claims ----------------------------------------------------------------------------------------------
def nothing_against_everybody(dataset: str, rows: Rows) -> Claim:
    text = "Nobody is re-identified from a distilled release, while a sampled one gives nearly everybody away"
    level = REVEAL_LEVELS[-1]
    sampled = found(rows, SAMPLED, level)
    made = [(source, found(rows, source, level)) for source in RELEASES[1:]]
    there = [(source, row) for source, row in made if row is not None]
    if sampled is None or not there:
        return claim(text, dataset, None)
    parts = [f"{label(source)} {row.value:.2f} %" for source, row in [(SAMPLED, sampled), *there]]
    popular = found(rows, "poprec", level)
    alone = f"; popularity alone would name the missing items of {popular.value:.2f} %" if popular else ""
    return claim(
        text,
        dataset,
        sampled.value >= NEARLY_EVERYBODY and all(row.value <= NOBODY for _, row in there),
        f"with {level.label}: {', '.join(parts)}{alone}.",
    )


NOISE_LEVELS = tuple(Level(REVEAL, noise) for noise in NOISES)
EVERYTHING = Level(1.0, 0.0)  # the attack at its best: a share far from 100 % would mean that it is broken


def noise_cells(plan: Plan) -> list[Cell]:
    levels = [level for level in NOISE_LEVELS if not plan.quick or level.noise in QUICK_NOISES]
    return attack_cells(plan, levels, of_sample=(EVERYTHING,))


def noise_findings(results: Results) -> Findings:
    caption = (
        f"Users re-identified from a release when {100 * REVEAL:g} % of each history is known and a growing "
        "share of all items is flipped in the attacker's copy."
    )
    axis = ("items flipped per user (%)", lambda level: level.noise)
    claims = (whatever_the_noise, less_with_noise)
    return findings("deanonymise-noise", results, NOISE_LEVELS, axis, caption, claims, also=(EVERYTHING,))


def whatever_the_noise(dataset: str, rows: Rows) -> Claim:
    text = "Nobody is re-identified from a distilled release, even without noise"
    parts, worst = [], []
    for source in RELEASES[1:]:
        shares = [row for level in NOISE_LEVELS if (row := found(rows, source, level)) is not None]
        if shares:
            worst.append(max(row.value for row in shares))
            parts.append(f"{label(source)} {shares[0].value:.2f} % without noise, at most {worst[-1]:.2f} %")
    if not parts:
        return claim(text, dataset, None)
    return claim(text, dataset, max(worst) <= NOBODY, "; ".join(parts) + ".")


def less_with_noise(dataset: str, rows: Rows) -> Claim:
    text = "From a sampled release, fewer users are re-identified the noisier the attacker's copy is"
    shares = [(level, found(rows, SAMPLED, level)) for level in NOISE_LEVELS]
    there = [(level, row) for level, row in shares if row is not None]
    if len(there) < 2:
        return claim(text, dataset, None)
    falls = all(one.value >= other.value for (_, one), (_, other) in pairwise(there))
    lines = ", ".join(f"{row.value:.1f} % at {level.noise:g} %" for level, row in there)
    return claim(text, dataset, falls and there[0][1].value > there[-1][1].value, f"{lines}.")


DEANONYMISE_NOISE = Experiment(
    name="deanonymise-noise",
    title="Who is re-identified by noisy knowledge?",
    source="appendix",
    about=f"Releases of {USERS} users, random ones or distilled, attacked with noisy copies.",
    cells=noise_cells,
    findings=noise_findings,
    datasets=("ml-1m", "magazine", "douban"),
)


REVEAL_LEVELS = tuple(Level(share, 0.0) for share in SHARES)


def reveal_cells(plan: Plan) -> list[Cell]:
    return attack_cells(plan, [one for one in REVEAL_LEVELS if not plan.quick or one.reveal in QUICK_SHARES])


def reveal_findings(results: Results) -> Findings:
    caption = (
        "Users re-identified from a release when a growing share of each history is known, without noise."
    )
    axis = ("known of each history (%)", lambda level: 100 * level.reveal)
    return findings("deanonymise-reveal", results, REVEAL_LEVELS, axis, caption, (nothing_against_everybody,))


DEANONYMISE_REVEAL = Experiment(
    name="deanonymise-reveal",
    title="Who is re-identified by a part of a history?",
    source="appendix",
    about=f"Releases of {USERS} users, random ones or distilled, attacked with partial copies.",
    cells=reveal_cells,
    findings=reveal_findings,
    datasets=("ml-1m", "magazine", "douban"),
)
