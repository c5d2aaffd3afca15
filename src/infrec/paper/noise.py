"""Figures 3 and 4 with their appendix: train data in which a share of all items is flipped for every user.

What does EASE lose when noisy data is sampled? How do ∞-AE and EASE do on it, against the number of users?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.paper import scaling
from infrec.paper.cells import DEFAULT_MODE, DISTILLED, FULL, HEURISTICS, PUBLISHED_KIND, Cell, Data
from infrec.paper.experiment import Experiment, Judged, Plan, claimed, claimed_of_summaries
from infrec.paper.results import HR, MAIN_AND_ALL, Results, Row, Rows, axis, pivot, series, value
from infrec.paper.table1 import CORE, USERS
from infrec.paper.verdicts import Answer, Estimate, Statistic, Untestable, estimate, every, margin, some
from infrec.randomness import generator
from infrec.report.document import Figure, Panel, Point, Table
from infrec.report.numbers import label, signed

MODELS = ("infinite-ae", "ease")
LEVELS = (0.0, 0.5, 1.0, 2.0, 5.0)
QUICK_LEVELS = (0.0, 1.0, 5.0)
MOST = LEVELS[-1]
BUDGETS = (100, 500)
SCALED = ("user-rns", DISTILLED)
MODES = ("published", DEFAULT_MODE)  # a quick look leaves the first out
SUMMARIES = (PUBLISHED_KIND, DISTILLED)
AGAIN = ("noisy histories",)
NOTES = (
    "The noise flips exactly that share of all items for every user of the train part, before "
    "sampling. Models and λ are judged with the users' own, noise-free histories and test items; the "
    "paper does not say whether its test histories carried the noise, so the second table has it in "
    "them (an item that noise puts into a history is then masked, and the propensities of PSP are "
    "those of the noisy log).",
)
_BLOCK_ENTRIES = 1 << 23


# ---- the noise ---------------------------------------------------------------------------------------------
def flip(log: Interactions, percent: float, *, seed: int = 42) -> Interactions:
    """For each user exactly round(percent % of the items) distinct items, all equally likely, are flipped.

    What was an interaction is none any more, what was none becomes one, of weight 1; those that stay keep
    theirs. A user with few interactions is hit hardest: with 5 % of 3,706 items, 185 entries of every row
    change, whether it held 20 or 2,000. Every user and item stays, even one that is left with nothing.
    Flipping twice with the same seed gives an unweighted log back.
    """
    if not 0 <= percent <= 100:
        raise ConfigError(f"noise is {percent:g} %; expected a share of the items from 0 to 100.")
    count = round(percent / 100 * log.n_items)
    if not count:
        return log.with_matrix(log.matrix)
    rng = generator(seed, "noise")
    step = max(1, _BLOCK_ENTRIES // log.n_items)
    blocks = []
    for start in range(0, log.n_users, step):
        rows = log.matrix[start : start + step]
        # The smallest `count` of as many random numbers as there are items: distinct, and each set as likely.
        chance = rng.random((rows.shape[0], log.n_items), dtype=np.float32)
        drawn = np.argpartition(chance, count - 1, axis=1)[:, :count]
        dense = rows.toarray()
        hit = np.take_along_axis(dense, drawn, axis=1)
        np.put_along_axis(dense, drawn, (hit == 0).astype(np.float32), axis=1)
        blocks.append(sp.csr_array(dense))
    return log.with_matrix(sp.csr_array(sp.vstack(blocks)))


def varied(
    models: Sequence[str], samplers: Sequence[str], budgets: Sequence[int], plan: Plan, dataset: str
) -> Iterator[Cell]:
    """Each model at each level of noise: on all users, and on those of each sampler and of Distill-CF."""
    for noise in QUICK_LEVELS if plan.quick else LEVELS:
        again = AGAIN if noise else ()
        for model in models:
            yield plan.cell(dataset, Data(noise=noise), model, beyond=again or CORE)
            for users in budgets:
                sources = [Data(source, users, noise) for source in samplers]
                summaries = [plan.distilled(users, mode, noise) for mode in MODES[plan.quick :]]
                for data in (*sources, *summaries):
                    yield plan.cell(dataset, data, model, beyond=again)


def clean(here: Results) -> Rows:
    """Those measured with the users' own histories."""
    return here.rows.where(histories="clean")


def tables(models: Sequence[str], sources: Sequence[str], each: list[Results]) -> Iterator[Table]:
    """Models, sources and budgets down, noise across; then with noise in the test users' histories, too."""
    several = len(models) > 1

    def table(here: Results, rows: Rows, also: str = "") -> Table:
        lines = {}
        for model in models:
            for source in (FULL, *sources):
                own = rows.where(metric=HR, model=model, source=source)
                for users in own.every("users"):
                    words = [label(model)] * several + [label(source)] + [f"{users:,}"] * (source != FULL)
                    lines[", ".join(words)] = own.where(users=users)
        noises = sorted({row.noise for own in lines.values() for row in own})
        data = here.dataset if several else f"{label(models[0])} on {here.dataset}"
        return pivot(
            f"{data}: {HR} by the share of items flipped before sampling{also}.",
            "model, source, users" if several else "source, users",
            lines,
            {f"{noise:g} %": noise for noise in noises},
            lambda own, noise: value(HR, own.get(noise=noise), paper=own[0].source == FULL),
        )

    for here in each:
        yield table(here, clean(here))
    if any(here.rows.where(histories="noisy") for here in each):
        for here in each:
            rows = [*here.rows.where(histories="noisy"), *clean(here).where(noise=0.0)]
            yield table(here, Rows(rows), "; here the noise is in the test users' histories, too")


# ---- samples: the drop against the full, noise-free data ---------------------------------------------------
def sampled_figures(each: list[Results]) -> Iterator[Figure]:
    """Per dataset and metric, the drop over the noise for each number of users, one line for each source."""
    for suffix, metrics in MAIN_AND_ALL:
        yield Figure(
            f"noise-samplers{suffix}",
            f"What {label('ease')} loses when data is noisy and then sampled, in percent of what it reaches "
            "on the full, noise-free data. Bands are 95 % intervals over users; negative is a gain.",
            [
                [drop_panel(here, users, metric) for users in clean(here).samples.every("users")]
                for here in each
                for metric in metrics
            ],
            same_y=True,
        )


def drop(value: float, full: Row) -> float:
    """In percent of the full, noise-free value; negative where it is a gain."""
    return 100 * (full.value - value) / full.value


def drop_panel(here: Results, users: int, metric: str) -> Panel:
    rows = clean(here).where(metric=metric)
    full = rows.get(source=FULL, noise=0.0)
    points: dict[str, list[Point]] = {}
    if full is not None:
        for source in (*HEURISTICS, *SUMMARIES, FULL):
            own = rows.where(source=source).by("noise")
            points[source] = [
                Point(row.noise, drop(row.value, full), drop(row.high, full), drop(row.low, full), row.seeds)
                for row in (own if source == FULL else own.where(users=users))
            ]
    title, y = f"{here.dataset}, {users:,} users", f"drop in {metric} (%)"
    return Panel(title, "items flipped per user (%)", y, series(points))


@claimed("Sampling noisy data compounds the loss of sampling and the loss of noise")
def compounds(here: Results) -> Judged:
    """With most noise, every sample is below the same sample without noise and below all users with it."""
    rows = clean(here).where(metric=HR)
    noise = max(rows.where(noise=bool).every("noise"), default=MOST)
    full, noisy_full = (rows.one(source=FULL, noise=level) for level in (0.0, noise))
    answers: list[Answer] = []
    parts = []
    samples = rows.where(source=HEURISTICS, noise=0.0).by("users")
    for alone in sorted(samples, key=lambda row: HEURISTICS.index(row.source)):
        if both := rows.get(source=alone.source, users=alone.users, noise=noise):
            either = max(drop(alone.value, full), drop(noisy_full.value, full))
            answers.append(every((margin(alone, both), margin(noisy_full, both))))
            place = f"{label(alone.source)} {alone.users}"
            parts.append(f"{place}: {drop(both.value, full):.1f} against {either:.1f}")
    if not answers:
        raise Untestable
    return every(answers), (
        f"{answers.count(True)} of {len(answers)} samples lose more beyond the intervals, "
        f"{answers.count(False)} less; drop in {HR} (%) with {noise:g} % noise and sampling, against the "
        f"larger of either alone: {'; '.join(parts)}"
    )


Contest = tuple[Row, Rows]  # a row, and those of the samplers with as much noise and as many users


def contests(here: Results, source: str) -> dict[int, list[Contest]]:
    """By number of users, a source beside the samplers, from the least noise to the most."""
    rows = clean(here).where(metric=HR)
    others = rows.where(source=tuple(rival for rival in HEURISTICS if rival != source))
    by_users: dict[int, list[Contest]] = {}
    for own in rows.where(source=source).by("noise").by("users"):
        if rivals := others.where(users=own.users, noise=own.noise):
            by_users.setdefault(own.users, []).append((own, rivals))
    if not any(len(levels) > 1 for levels in by_users.values()):
        raise Untestable
    return by_users


def lead_in(contest: Contest, lead: Statistic) -> Estimate:
    """How far ahead the source is. lead: of its value and the samplers'."""
    own, rivals = contest
    return estimate(lead, own, *rivals)


def grows(lead: Statistic, before: Contest, after: Contest) -> Answer:
    """Whether a lead is larger in the second contest than in the first."""
    middle = 1 + len(after[1])
    rows = (after[0], *after[1], before[0], *before[1])
    return estimate(lambda *values: lead(*values[:middle]) - lead(*values[middle:]), *rows).above()


def over_best(own: float, *rivals: float) -> float:
    return own - max(rivals)


def over_mean(own: float, *rivals: float) -> float:
    """In percent of the rivals' mean."""
    mean = fmean(rivals)
    return 100 * (own - mean) / mean if mean else 0.0


def written(by_users: dict[int, list[Contest]], lead: Statistic, digits: int, unit: str) -> str:
    return "; ".join(
        f"{users} users: "
        + ", ".join(
            f"{signed(lead_in(one, lead).value, digits)}{unit} at {one[0].noise:g} %" for one in levels
        )
        for users, levels in by_users.items()
    )


@claimed_of_summaries(
    "Distill-CF has the best trade-off between noise, sampling and quality, and its lead grows with noise"
)
def best_trade_off(here: Results, source: str) -> Judged:
    by_users = contests(here, source)
    answers = [lead_in(one, over_best).above() for levels in by_users.values() for one in levels]
    answers += [grows(over_best, levels[0], levels[-1]) for levels in by_users.values()]
    return every(answers), f"lead over the best sampler in {HR}: {written(by_users, over_best, 2, '')}"


@claimed("Head-user sampling gains on the other samplers with more noise and fewer users")
def head_users(here: Results) -> Judged:
    by_users = contests(here, "head-user")
    answers = [grows(over_mean, levels[0], levels[-1]) for levels in by_users.values()]
    most = max(levels[-1][0].noise for levels in by_users.values())
    few, *more = [levels[-1] for levels in by_users.values() if levels[-1][0].noise == most]
    if more:
        answers.append(grows(over_mean, more[-1], few))
    gains = written(by_users, over_mean, 0, " %")
    return every(answers), f"{HR} relative to the other samplers' mean: {gains}"


# ---- ∞-AE and EASE by the number of users ------------------------------------------------------------------
def scaled_figures(each: list[Results]) -> Iterator[Figure]:
    """Quality over users for each level of noise; four lines: each model on each source."""

    def panel(rows: Rows, noise: float, metric: str) -> Panel:
        points = {
            f"{model}|{source}": scaling.points(rows.where(metric=metric, model=model, noise=noise), source)
            for model in MODELS
            for source in SCALED
        }
        return Panel(f"{noise:g} % noise", "users", axis(metric), series(points), log_x=True)

    for here in each:
        rows = clean(here)
        for suffix, metrics in MAIN_AND_ALL:
            yield Figure(
                f"noise-{here.dataset}{suffix}",
                f"∞-AE and EASE on {here.dataset} with noise, fitted on users drawn at random or distilled; "
                "the last point of User-RNS is all users. Bands are 95 % intervals over users.",
                [[panel(rows, noise, metric) for noise in rows.every("noise")] for metric in metrics],
                same_y=True,
            )


@claimed("On all users, the gap between ∞-AE and EASE grows with noise")
def gap_grows(here: Results) -> Judged:
    """With most noise ∞-AE leads, by more than without; nowhere between is the gap below that without."""
    rows = clean(here).where(metric=HR, source=FULL)
    pairs = rows.pairs("noise", {"model": "infinite-ae"}, {"model": "ease"})
    if len(pairs) < 2:
        raise Untestable

    def growth(of: tuple[Row, Row]) -> Answer:
        return estimate(lambda a, b, c, d: (a - b) - (c - d), *of, *pairs[0]).above()

    falls = [False for between in pairs[1:-1] if growth(between) is False]
    answers = [margin(*pairs[-1]), growth(pairs[-1]), *falls]
    lines = ", ".join(f"{signed(a.value - b.value, 2)} at {a.noise:g} %" for a, b in pairs)
    return every(answers), f"∞-AE minus EASE in {HR}: {lines}"


def noisiest_ease(here: Results) -> Rows:
    """EASE with most noise, by the number of users."""
    return clean(here).where(metric=HR, model="ease", noise=MOST).by("users")


@claimed_of_summaries(
    f"At {MOST:g} % noise, EASE on a tiny distilled summary is better than EASE on the full data"
)
def small_beats_full(here: Results, source: str) -> Judged:
    rows = noisiest_ease(here)
    full, tiny = rows.get(source=FULL), rows.where(source=source, users=lambda users: users <= USERS)
    if full is None or not tiny:
        raise Untestable(f"{MOST:g} % noise was not measured")
    figures = f"{HR} {tiny.best} on {tiny.best.users} distilled users, {full} on all"
    return some(margin(row, full) for row in tiny), figures


@claimed_of_summaries(f"At {MOST:g} % noise, EASE is best on the smaller distilled summaries")
def fewer_is_better(here: Results, source: str) -> Judged:
    """Some summary of the smaller half is above each of the larger half."""
    summaries = noisiest_ease(here).where(source=source)
    if len(summaries) < 2:
        raise Untestable(f"{MOST:g} % noise was not measured")
    middle = (len(summaries) + 1) // 2
    lines = ", ".join(f"{row} ({row.users})" for row in summaries)
    answer = some(every(margin(small, large) for large in summaries[middle:]) for small in summaries[:middle])
    return answer, f"{HR} by number of users: {lines}"


# ---- the two experiments -----------------------------------------------------------------------------------
NOISE_SAMPLERS = Experiment(
    name="noise-samplers",
    title="What does sampling noisy data cost?",
    source="Figure 3 and appendix",
    about="EASE on noisy train data, sampled or distilled to 100 and 500 users, and on all users.",
    varied=lambda plan, dataset: varied(
        ("ease",), HEURISTICS, plan.budgets(dataset, BUDGETS)[-1 if plan.quick else 0 :], plan, dataset
    ),
    claims=(compounds, best_trade_off, head_users),
    figures=sampled_figures,
    tables=partial(tables, MODELS[1:], (*HEURISTICS, *SUMMARIES)),
    notes=NOTES,
)
NOISE_INFINITE_AE = Experiment(
    name="noise-infinite-ae",
    title="How robust is ∞-AE to noise?",
    source="Figure 4 and appendix",
    about="∞-AE and EASE on noisy data: users at random and distilled ones, 50 to 2,000, and all users.",
    varied=lambda plan, dataset: varied(MODELS, SCALED[:1], plan.budgets(dataset), plan, dataset),
    claims=(gap_grows, small_beats_full, fewer_is_better),
    figures=scaled_figures,
    tables=partial(tables, MODELS, (*SCALED, PUBLISHED_KIND)),
    notes=NOTES,
)
