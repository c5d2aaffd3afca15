"""Who is re-identified from a release: by matching where it has real users, by prediction where it has none.

The paper's appendix: the attacker has a copy of the data with names in it, of which only a part of each
history is left and in which a share of all items is flipped for everybody. Against a sample, a user is found
when the Narayanan–Shmatikov matching claims the right row. A summary has no such row: there, a user counts as
found when ∞-AE, fitted on the summary and told how many items are missing from the copy, names exactly these.
What is popular names some of them as well, whatever was released: that is the second line of such a record.

Two figures of the appendix: the attacker's copy is noisy; more and more of each history is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.paper.cells import DISTILLED, Cell, Data, pairs
from infrec.paper.experiment import Experiment, Judged, Plan, claimed, claimed_of_summaries
from infrec.paper.noise import flip
from infrec.paper.results import Results, Row, Rows, pivot, point, series, value
from infrec.paper.verdicts import Answer, Untestable, estimate, every, margin
from infrec.progress import Progress, silent
from infrec.randomness import generator
from infrec.report.document import Figure, Panel, Table, Value
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


@dataclass(frozen=True)
class Level:
    """Quality of the attacker's copy. reveal: share of each history. noise: percent of items flipped."""

    reveal: float
    noise: float

    @property
    def label(self) -> str:
        return f"{100 * self.reveal:g}% known, {self.noise:g}% flipped"


NOISES = tuple(Level(0.5, noise) for noise in (0.0, 0.5, 1.0, 2.0, 5.0))
QUICK_NOISES = tuple(level for level in NOISES if level.noise in (0.0, 1.0, 5.0))
EVERYTHING = Level(1.0, 0.0)  # the attack at its best: a share far from 100 % would mean that it is broken
SHARES = tuple(Level(share, 0.0) for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))
QUICK_SHARES = tuple(level for level in SHARES if level.reveal in (0.1, 0.5, 0.9))


def varied(
    levels: Sequence[Level], quick: Sequence[Level], of_sample: Sequence[Level], plan: Plan, dataset: str
) -> Iterator[Cell]:
    """Each release at each level; the sample at further ones."""
    users = plan.budgets(dataset, (USERS,))[-1]
    releases = [Data(SAMPLED, users), plan.distilled(users)]
    releases += [] if plan.quick else [plan.distilled(users, "published")]
    for release in releases:
        further = of_sample if release.source == SAMPLED else ()
        for level in (*(quick if plan.quick else levels), *further):
            yield Cell(dataset, 0, release, label=level.label, attack=pairs(**vars(level)))


# ---- the attacks -----------------------------------------------------------------------------------------
def measured(cell: Cell, log: Interactions, released: Interactions, progress: Progress = silent) -> list[Any]:
    """The attack of a cell on what was released of a log."""
    known = dict(cell.attack)
    level = Level(float(known["reveal"]), float(known["noise"]))
    if cell.data.source == DISTILLED:
        return predicted(log, released, level, seed=cell.seed)
    return matched(log, released, level, seed=cell.seed, progress=progress)


def copy_of(log: Interactions, level: Level, *, seed: int) -> sp.csr_array:
    """The attacker's copy of each user's history: a share of the items, then flips; 0/1.

    Of everybody at least one item is known and, unless everything is, one is not (where there are two).
    """
    from infrec.privacy.matching import parted

    n = log.user_counts
    known = np.round(level.reveal * n).astype(np.int64)
    known = n if level.reveal >= 1 else np.clip(known, 1, np.maximum(1, n - 1))
    shown, _ = parted(log.matrix, known, generator(seed, "attacker's copy"))
    return flip(log.with_matrix(shown), level.noise, seed=seed).matrix


def matched(
    log: Interactions, released: Interactions, level: Level, *, seed: int, progress: Progress = silent
) -> list[dict[str, Any]]:
    """A release of real users, known by their ids here alone: the attacker sees only the rows.

    strangers: as many users who are not in the release, where there are any; claiming one is a mistake.
    """
    from infrec.privacy import match

    rows = log.users.positions(released.users.ids)
    others = np.setdiff1d(np.arange(log.n_users), rows)
    if len(others) > len(rows):
        others = np.sort(generator(seed, "strangers").choice(others, len(rows), replace=False))
    own, theirs = (copy_of(log.select_users(who), level, seed=seed) for who in (rows, others))
    matches = match(own, released.matrix, progress=progress)
    truth = np.arange(len(rows))
    shares = {IDENTIFIED: matches.correct(truth), MISTAKEN: matches.wrong(truth)}
    if len(others):
        shares[STRANGERS] = match(theirs, released.matrix, progress=progress).accepted
    return [line("matching", shares)]


def predicted(log: Interactions, released: Interactions, level: Level, *, seed: int) -> list[dict[str, Any]]:
    """A release of synthetic users: can the missing items of each real one be named, all of them?"""
    from infrec.models import InfiniteAE
    from infrec.privacy.linkage import hits

    log = log.select_users(np.flatnonzero(log.user_counts >= 2))
    given = copy_of(log, level, seed=seed)
    rest = log.matrix.copy()
    rest.data = np.ones_like(rest.data)
    rest = sp.csr_array(rest - rest.multiply(given != 0))
    rest.eliminate_zeros()
    users = np.flatnonzero(np.diff(rest.indptr))
    given, rest = sp.csr_array(given[users]), sp.csr_array(rest[users])
    reg = getattr(released, "reg", None)  # the λ that the summary itself brings
    model = InfiniteAE(**({} if reg is None else {"reg": reg})).fit(released)
    counts = np.asarray(released.matrix.sum(axis=0)).ravel()
    by = {"infinite-ae": hits(given, rest, model=model), "poprec": hits(given, rest, counts=counts)}
    return [line(name, {IDENTIFIED: shares == 1, NAMED: shares}) for name, shares in by.items()]


def line(model: str, shares: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Means over users in percent; of those that are yes or no, with Clopper–Pearson intervals."""
    from infrec.privacy.membership import rate

    metrics, intervals = {}, {}
    for metric, values in shares.items():
        metrics[metric] = 100.0 * float(values.mean()) if len(values) else None
        if values.dtype == bool and len(values):
            share = rate(float(values.sum()), len(values))
            intervals[metric] = [100.0 * share.low, 100.0 * share.high]
    return {"model": model, "settings": {}, "metrics": metrics, "intervals": intervals}


# ---- claims ----------------------------------------------------------------------------------------------
def found(here: Results, source: str, level: Level, metric: str = IDENTIFIED) -> Row | None:
    """The row of an attack on a release: by matching, or with ∞-AE. poprec: of guessing popular items."""
    model = {SAMPLED: "matching", "poprec": "poprec"}.get(source, "infinite-ae")
    release = DISTILLED if source == "poprec" else source
    return here.rows.get(source=release, label=level.label, model=model, metric=metric)


def by_noise(here: Results, source: str) -> dict[float, Row]:
    """The rows of the attack on a release at the levels of noise that were measured."""
    return {level.noise: row for level in NOISES if (row := found(here, source, level)) is not None}


@claimed_of_summaries("Nobody is re-identified from a distilled release, even without noise")
def whatever_the_noise(here: Results, source: str) -> Judged:
    rows = Rows(by_noise(here, source).values())
    most = rows.best.value
    return every(map(nobody, rows)), f"{rows[0].value:.2f} % without noise, at most {most:.2f} %"


def nobody(row: Row) -> Answer:
    """Whether at most so few are re-identified that it is nobody in particular."""
    return estimate(lambda share: share, row).below(NOBODY)


@claimed("From a sampled release, fewer users are re-identified the noisier the attacker's copy is")
def less_with_noise(here: Results) -> Judged:
    sampled = by_noise(here, SAMPLED)
    if len(sampled) < 2:
        raise Untestable
    first, *_, last = rows = list(sampled.values())
    rises = [False for one, other in pairwise(rows) if margin(one, other) is False]
    lines = ", ".join(f"{row.value:.1f} % at {noise:g} %" for noise, row in sampled.items())
    return every((margin(first, last), *rises)), lines


@claimed_of_summaries(
    "Nobody is re-identified from a distilled release, while a sampled one gives nearly everybody away"
)
def nothing_against_everybody(here: Results, source: str) -> Judged:
    level = SHARES[-1]
    sampled, own, popular = (found(here, release, level) for release in (SAMPLED, source, "poprec"))
    if sampled is None or own is None:
        raise Untestable
    alone = f"; popularity alone would name the missing items of {popular.value:.2f} %" if popular else ""
    everybody = estimate(lambda share: share, sampled).above(NEARLY_EVERYBODY)
    figures = (
        f"with {level.label}: {label(SAMPLED)} {sampled.value:.2f} %, distilled {own.value:.2f} %{alone}"
    )
    return every((everybody, nobody(own))), figures


# ---- figures and tables ----------------------------------------------------------------------------------
def figure(
    name: str, when: str, x: str, levels: Mapping[float, Level], each: list[Results]
) -> Iterator[Figure]:
    """A panel for each dataset. when: ends the caption. x: the axis, levels: by their place on it."""

    def panel(here: Results) -> Panel:
        points = {
            source: [point(place, row) for place, one in levels.items() if (row := found(here, source, one))]
            for source in (*RELEASES, "poprec")
        }
        return Panel(here.dataset, x, "users re-identified (%)", series(points))

    caption = (
        f"Users re-identified from a release when {when}. Bands are 95 % intervals over users; PopRec names "
        "what is popular in the summary."
    )
    yield Figure(name, caption, [[panel(here)] for here in each])


def tables(levels: Sequence[Level], each: list[Results]) -> Iterator[Table]:
    """Levels down, releases across; then how sure the attack is. What was not measured has no place."""
    further = {
        "by popularity alone": ("poprec", IDENTIFIED),
        f"{label(SAMPLED)}: taken for another": (SAMPLED, MISTAKEN),
        f"{label(SAMPLED)}: strangers claimed": (SAMPLED, STRANGERS),
        f"{label(DISTILLED)}: missing items named": (DISTILLED, NAMED),
    }
    for here in each:
        releases = {label(one): (one, IDENTIFIED) for one in RELEASES if here.rows.where(source=one)}
        lines = {level.label: level for level in levels if here.rows.where(label=level.label)}

        def cell(level: Level, column: tuple[str, str], here: Results = here) -> Value:
            source, metric = column
            known = level == SHARES[-1] and metric == IDENTIFIED
            paper = PUBLISHED.get((here.dataset, source)) if known else None
            return replace(value(metric, found(here, source, level, metric)), paper=paper)

        users = here.rows.where(source=SAMPLED).every("users")
        size = f" of {users[0]:,} users" if users else ""
        caption = f"{here.dataset}: users re-identified from a release{size} (%)."
        yield pivot(caption, "attacker's copy", lines, releases | further, cell)


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
DEANONYMISE_NOISE = Experiment(
    name="deanonymise-noise",
    title="Who is re-identified by noisy knowledge?",
    source="appendix",
    about=f"Releases of {USERS} users, random ones or distilled, attacked with noisy copies.",
    varied=partial(varied, NOISES, QUICK_NOISES, (EVERYTHING,)),
    claims=(whatever_the_noise, less_with_noise),
    figures=lambda each: figure(
        "deanonymise-noise",
        "50 % of each history is known and a growing share of all items is flipped in the attacker's copy",
        "items flipped per user (%)",
        {level.noise: level for level in NOISES},
        each,
    ),
    tables=partial(tables, (EVERYTHING, *NOISES)),
    notes=NOTES,
)
DEANONYMISE_REVEAL = Experiment(
    name="deanonymise-reveal",
    title="Who is re-identified by a part of a history?",
    source="appendix",
    about=f"Releases of {USERS} users, random ones or distilled, attacked with partial copies.",
    varied=partial(varied, SHARES, QUICK_SHARES, ()),
    claims=(nothing_against_everybody,),
    figures=lambda each: figure(
        "deanonymise-reveal",
        "a growing share of each history is known, without noise",
        "known of each history (%)",
        {100 * level.reveal: level for level in SHARES},
        each,
    ),
    tables=partial(tables, SHARES),
    notes=NOTES,
)
