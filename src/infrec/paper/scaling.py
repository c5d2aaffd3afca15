"""Quality against the number of users a model is fitted on: of samples and of summaries.

Figure 1 (∞-AE), Figure 2 (EASE) and a figure of the appendix (MVAE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import log
from statistics import fmean
from typing import Any

from infrec.paper.cells import (
    CLOSED_FORM,
    DISTILLED,
    FULL,
    GENERATED,
    HEURISTICS,
    PUBLISHED_KIND,
    Cell,
    Data,
    pairs,
)
from infrec.paper.experiment import (
    QUICK_EPOCHS,
    Claimed,
    Experiment,
    Judged,
    Plan,
    claimed,
    claimed_of_summaries,
)
from infrec.paper.published import METRICS
from infrec.paper.results import HR, Results, Row, Rows, axis, pivot, point, series, value
from infrec.paper.table1 import CORE, MODES, USERS
from infrec.paper.verdicts import Answer, Estimate, Untestable, estimate, every, margin, some
from infrec.report.document import Figure, Panel, Point, Table, Value
from infrec.report.numbers import label, number

SOURCES = (*HEURISTICS, GENERATED, PUBLISHED_KIND, DISTILLED, f"{DISTILLED}-soft")
SHOWN = (HR, "PSP@10")  # of the main figure; the rest is the appendix's
QUICK_MODES = ("discrete",)
NEAR, SATURATED, TRANSFERS = 0.10, 0.05, 0.95
APART = 0.1  # of a share: what counts as another behaviour


def varied(model: str, plan: Plan, dataset: str) -> Iterator[Cell]:
    """One model on every source and budget, and on all users."""
    yield plan.cell(dataset, Data(), model, beyond=CORE)
    budgets = plan.budgets(dataset)
    for users in budgets[-1:] if plan.quick and model not in CLOSED_FORM else budgets:
        summaries = [plan.distilled(users, mode) for mode in (QUICK_MODES if plan.quick else MODES)]
        for data in (*(Data(source, users) for source in HEURISTICS), *summaries):
            yield plan.cell(dataset, data, model)


# ---- figures and tables ----------------------------------------------------------------------------------
def points(rows: Rows, source: str) -> list[Point]:
    """The curve of a source: quality over users."""
    return [point(row.users, row) for row in curve(rows, source)]


def curve(rows: Rows, source: str) -> Rows:
    """One source's rows by number of users; of a heuristic, up to all of them."""
    sources = (source, FULL) if source in HEURISTICS else (source,)
    return rows.where(source=sources).by("users")


def figures(stem: str, model: str, each: list[Results]) -> Iterator[Figure]:
    """The main figure, and the appendix's with every metric; the dashed line is the model on all users."""

    def panel(here: Results, metric: str) -> Panel:
        rows = here.rows.where(metric=metric)
        full = rows.get(source=FULL)
        line = None if full is None else (full.value, "all users")
        curves = series({source: points(rows, source) for source in SOURCES})
        return Panel(here.dataset, "users", axis(metric), curves, log_x=True, line=line)

    for suffix, metrics, what in (("", SHOWN, " and ".join(SHOWN)), ("-all", METRICS, "all metrics")):
        yield Figure(
            f"{stem}{suffix}",
            f"{label(model)} fitted on fewer and fewer users, chosen or made by each strategy: {what}. "
            "Bands are 95 % intervals over users, means over seeds; the dashed line is the model on all "
            "users.",
            [[panel(here, metric) for here in each] for metric in metrics],
        )


def tables(model: str, each: list[Results]) -> Iterator[Table]:
    """Sources down, budgets across."""
    for here in each:
        rows = here.rows.where(metric=HR)
        columns = {f"{users:,}": users for users in rows.samples.every("users")} | {"all": None}
        lines = {label(source): source for source in (*SOURCES, FULL) if rows.where(source=source)}

        def cell(source: str, users: int | None, rows: Rows = rows) -> Value:
            if source == FULL:
                return value(HR, None if users else rows.get(source=FULL), paper=True)
            return value(HR, rows.get(source=source, users=users))

        caption = f"{label(model)} on {here.dataset}: {HR} by source and number of users."
        yield pivot(caption, "source", lines, columns, cell)


# ---- claims: samples -------------------------------------------------------------------------------------
@claimed("Heuristic samplers lie near the line: quality grows steadily with the logarithm of the users")
def near_the_line(here: Results) -> Judged:
    """Each heuristic's curve against the straight line (on the logarithmic axis) between its ends."""
    distances: dict[str, Estimate] = {}
    for source in HEURISTICS:
        rows = curve(here.rows.where(metric=HR), source)
        if len(rows) >= 3 and rows[-1].source == FULL:
            distances[source] = estimate(partial(off_the_line, rows.every("users")), *rows)
    if not distances:
        raise Untestable("too few budgets were measured")
    lines = "; ".join(f"{label(source)} {100 * off.value:.1f} %" for source, off in distances.items())
    near = every(off.below(NEAR) for off in distances.values())
    return near, f"mean distance from it in percent of the full {HR}: {lines}"


def off_the_line(users: Sequence[int], *values: float) -> float:
    """Mean distance of the inner values from the line between first and last, as a share of the last."""
    span, (first, *_, last) = log(users[-1] / users[0]), values
    inner = zip(users[1:-1], values[1:-1], strict=True)
    return fmean(abs(v - first - (last - first) * log(n / users[0]) / span) for n, v in inner) / last


@claimed("Of the heuristic samplers, User-RNS is slightly the best")
def best_heuristic(here: Results) -> Judged:
    of_sources = on_shared_budgets(here.rows)
    own = of_sources.get("user-rns")
    if own is None or len(of_sources) < 2:
        raise Untestable
    means = {source: fmean(row.value for row in rows) for source, rows in of_sources.items()}
    lines = "; ".join(f"{label(source)} {number(HR, mean)}" for source, mean in means.items())
    answers = [
        estimate(partial(difference_of_means, len(own)), *own, *rows).above()
        for source, rows in of_sources.items()
        if source != "user-rns"
    ]
    return every(answers), f"mean {HR} over the budgets: {lines}"


def difference_of_means(count: int, *values: float) -> float:
    """The mean of the first so many values minus that of the others."""
    return fmean(values[:count]) - fmean(values[count:])


def on_shared_budgets(rows: Rows) -> dict[str, Rows]:
    """Each heuristic's rows at the budgets that all of them have."""
    of_sources = {source: rows.where(metric=HR, source=source) for source in HEURISTICS}
    present = {source: own for source, own in of_sources.items() if own}
    shared = set.intersection(*(set(own.every("users")) for own in present.values())) if present else set()
    budgets = tuple(shared)
    return {source: own.where(users=budgets).by("users") for source, own in present.items() if budgets}


# ---- claims: summaries -----------------------------------------------------------------------------------
@claimed_of_summaries("On distilled data quality saturates quickly with the number of users")
def saturates(here: Results, source: str) -> Judged:
    rows = here.rows.where(metric=HR, source=source).by("users")
    from_500 = rows.where(users=lambda users: users >= USERS)
    if len(from_500) < 2:
        raise Untestable(f"no budgets of {USERS} and more were measured")
    first, *rest = from_500
    figures = f"{first} with {first.users}, at most {rows.best} with up to {rows[-1].users:,} users"
    return every(margin(first, row, 1 - SATURATED) for row in rest), figures


def transfers(model: str) -> Claimed:
    """At 500 users (or the nearest below): near the full data, and above every heuristic."""

    @claimed_of_summaries(f"Summaries made through ∞-AE serve {label(model)} as well: they transfer")
    def judge(here: Results, source: str) -> Judged:
        rows = here.rows.where(metric=HR)
        full = rows.one(source=FULL)
        own = Rows(reversed(rows.by("users"))).one(source=source, users=lambda users: users <= USERS)
        heuristics = rows.where(users=own.users, source=HEURISTICS)
        best = heuristics.best
        answers = [margin(own, full, TRANSFERS), *(margin(own, rival) for rival in heuristics)]
        share = 100 * own.value / full.value
        return every(answers), (
            f"{HR} with {own.users} users: distilled {own} ({share:.0f} % of {full} on all users), "
            f"{label(best.source)} {best}"
        )

    return judge


@claimed_of_summaries("MVAE on distilled data is better than MVAE on the full data")
def better_than_full(here: Results, source: str) -> Judged:
    rows = here.rows.where(metric=HR)
    full, summaries = rows.one(source=FULL), rows.where(source=source)
    best = summaries.best
    figures = f"{HR} {best} with {best.users:,} users, {full} on all {full.users:,} users"
    return some(margin(row, full) for row in summaries), figures


@claimed(
    "Interaction-RNS is the exception among the samplers: for MVAE it scales as for ∞-AE, not as for EASE"
)
def interactions_differ(here: Results) -> Judged:
    """Where Interaction-RNS stands among the heuristics for MVAE, for EASE and for ∞-AE."""
    shares: dict[str, Callable[[Sequence[float]], float]] = {}
    rows_of: list[Row] = []
    for model, name in (("mvae", ""), ("ease", "transfer-ease"), ("infinite-ae", "sample-efficiency")):
        rows = here.others(name).rows.where(dataset=here.dataset) if name else here.rows
        others = on_shared_budgets(rows)
        own = others.pop("interaction-rns", None)
        if own is None or not others:
            needed = "transfer-mvae, transfer-ease and sample-efficiency"
            raise Untestable(f"needs {needed}; {label(model)} is not measured yet")
        place, rivals = len(rows_of), [row for rows in others.values() for row in rows]
        shares[model] = partial(relative_mean, place, len(own), len(rivals))
        rows_of += [*own, *rivals]

    def apart(one: str, *values: float) -> float:
        return abs(shares["mvae"](values) - shares[one](values))

    def nearer(*values: float) -> float:
        return apart("ease", *values) - apart("infinite-ae", *values)

    answers = estimate(partial(apart, "ease"), *rows_of).above(APART), estimate(nearer, *rows_of).above()
    values = [row.value for row in rows_of]
    lines = ", ".join(f"{share(values):.3f} for {label(model)}" for model, share in shares.items())
    return every(answers), (
        f"its mean {HR} relative to the other samplers' is {lines} (to hold: more than {APART:g} from EASE, "
        "and nearer to ∞-AE)"
    )


def relative_mean(place: int, own: int, rivals: int, values: Sequence[float]) -> float:
    """The mean of so many values from a place on, relative to that of so many after them."""
    middle = place + own
    return fmean(values[place:middle]) / fmean(values[middle : middle + rivals])


# ---- the experiments --------------------------------------------------------------------------------------
NOTES = (
    "Interaction-RNS with a budget of N users takes the share N / all users of the interactions; it "
    "keeps nearly all users, each with few items.",
    "The paper's summaries are fractional; both kinds are shown here. λ of ∞-AE is chosen on "
    "validation for every sample; trained models have the settings chosen on the full data, but stop "
    "early on validation.",
)


def experiment(name: str, model: str, **more: Any) -> Experiment:
    """One model on every source and budget. more: the fields that are not common to these experiments."""
    common: dict[str, Any] = {
        "varied": partial(varied, model),
        "figures": partial(figures, name, model),
        "tables": partial(tables, model),
        "notes": NOTES,
    }
    return Experiment(name, **(common | more))


SAMPLE_EFFICIENCY = experiment(
    "sample-efficiency",
    "infinite-ae",
    title="How sample efficient is ∞-AE?",
    source="Figure 1 and appendix",
    about="∞-AE on samples and summaries of 50 to 2,000 users, and on all users.",
    claims=(near_the_line, best_heuristic, saturates),
)
TRANSFER_EASE = experiment(
    "transfer-ease",
    "ease",
    title="Do summaries transfer to EASE?",
    source="Figure 2",
    about="EASE on the same samples and summaries as ∞-AE in sample-efficiency.",
    claims=(transfers("ease"),),
)
TRANSFER_MVAE = experiment(
    "transfer-mvae",
    "mvae",
    title="Do summaries transfer to MVAE?",
    source="appendix",
    about="MVAE on the same samples and summaries as ∞-AE in sample-efficiency.",
    claims=(transfers("mvae"), better_than_full, interactions_differ),
)


PRACTICAL = 0.9


def augmented(plan: Plan, dataset: str) -> Iterator[Cell]:
    """The cells of transfer-ease, and AR-CF's users in the same numbers."""
    yield from varied("ease", plan, dataset)
    quick = pairs(epochs=QUICK_EPOCHS) if plan.quick else ()
    for users in plan.budgets(dataset):
        yield plan.cell(dataset, Data(GENERATED, users, settings=quick), "ease")


@claimed_of_summaries(
    "Training only on users made by augmentation is impractical: they are realistic, not informative"
)
def impractical(here: Results, kind: str) -> Judged:
    """Below Distill-CF's users at every budget, and never near the full data."""
    rows = here.rows.where(metric=HR)
    full, generated = rows.one(source=FULL), rows.where(source=GENERATED).by("users")
    best = generated.best
    lines: list[str] = []
    answers: list[Answer] = []
    for other, one in rows.pairs("users", {"source": kind}, {"source": GENERATED}):
        random = rows.get(source="user-rns", users=one.users)
        answers.append(margin(other, one))
        line = f"{one.users:,} users: AR-CF-style {one}, distilled {other}"
        lines.append(f"{line}, User-RNS {random}" if random else line)
    answers += [estimate(lambda a, b: PRACTICAL * b - a, row, full).above() for row in generated]
    share = 100 * best.value / full.value if full.value else 0.0
    return every(answers), (
        f"{HR} of EASE with {'; '.join(lines)}; at its best AR-CF-style reaches {share:.0f} % of {full} on "
        "all users"
    )


def looks(here: Results) -> Table:
    """How much generated users look like the log's, by their number: untrained, trained, and real ones."""
    sides = {"untrained": "untrained", "trained": "trained", "real": "real users"}
    keys = {"popularity": "popularity", "co_occurrence": "co-occurrence"}
    realism: dict[int, list[Any]] = {}
    for record in here.records:
        if about := record["data"].get("realism"):
            realism.setdefault(record["data"]["users"], []).append(about)
    lines = [
        (f"{users:,}", *(f"{fmean(one[side][key] for one in seeds):.3f}" for key in keys for side in sides))
        for users, seeds in sorted(realism.items())
    ]
    return Table(
        f"{here.dataset}: does the AR-CF-style generator learn? Popularity: total variation between the "
        "items' shares and the log's (0: the same). Co-occurrence: correlation of the pairs' correlations "
        "with the log's (1: the same).",
        ("users", *(f"{key}, {side}" for key in keys.values() for side in sides.values())),
        lines,
    )


NOTE_ON_AR_CF = (
    "AR-CF-style: a conditional GAN of our own making, on profiles from an SVD; AR-CF's code is not "
    "published. It is trained once for each seed on the whole train part, whatever the number of users that "
    "are then made. Only its user generator is used, as in the paper."
)


AUGMENTATION = experiment(
    "augmentation",
    "ease",
    title="How do distilled users compare with augmented ones?",
    source="appendix",
    about="EASE on users of an AR-CF-style GAN, on distilled and on sampled ones, 50 to 2,000 of them.",
    varied=augmented,
    claims=(impractical,),
    tables=lambda each: [*tables("ease", each), *map(looks, each)],
    notes=(NOTE_ON_AR_CF, *NOTES),
)
