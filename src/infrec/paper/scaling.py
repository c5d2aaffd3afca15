"""Quality against the number of users a model is fitted on: of samples, of summaries, made by AR-CF.

Figure 1 (∞-AE), Figure 2 (EASE) and figures of the appendix (MVAE; EASE on augmented users).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import log
from statistics import fmean
from typing import Any

from infrec.paper.cells import CLOSED_FORM, DISTILLED, FULL, GENERATED, HEURISTICS, Cell, Data, pairs
from infrec.paper.experiment import QUICK_EPOCHS, Claimed, Experiment, Judged, Plan, claimed
from infrec.paper.published import METRICS
from infrec.paper.results import HR, Results, Rows, axis, pivot, point, series, value
from infrec.paper.table1 import CORE
from infrec.report.document import Figure, Panel, Point, Table, Value
from infrec.report.numbers import label, number

SOURCES = (*HEURISTICS, GENERATED, DISTILLED, f"{DISTILLED}-soft")
SHOWN = (HR, "PSP@10")  # of the main figure; the rest is the appendix's
NEAR, SATURATED, TRANSFERS, PRACTICAL = 0.10, 0.05, 0.95, 0.9
APART = 0.1  # of a share: what counts as another behaviour


def varied(model: str, plan: Plan, dataset: str) -> Iterator[Cell]:
    """One model on every source and budget, and on all users."""
    yield Cell(dataset, 0, Data(), (plan.fit(dataset, model),), CORE)
    fit = plan.fit(dataset, model, whole=False)
    budgets = plan.budgets(dataset)
    for users in budgets[-1:] if plan.quick and model not in CLOSED_FORM else budgets:
        for source in HEURISTICS:
            yield Cell(dataset, 0, Data(source, users), (fit,))
        for mode in ("discrete",) if plan.quick else ("discrete", "soft"):
            yield Cell(dataset, 0, plan.distilled(users, mode), (fit,))


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
        lines = {label(source): source for source in SOURCES if rows.where(source=source)}
        lines |= {"all users": FULL} if rows.where(source=FULL) else {}

        def cell(source: str, users: int | None, rows: Rows = rows) -> Value:
            if (source == FULL) != (users is None):
                return Value(HR, None)
            own = rows.where(source=source)
            return value(HR, own.get() if users is None else own.get(users=users), paper=source == FULL)

        caption = f"{label(model)} on {here.dataset}: {HR} by source and number of users."
        yield pivot(caption, "source", lines, columns, cell)


# ---- claims: samples -------------------------------------------------------------------------------------
@claimed("Heuristic samplers lie near the line: quality grows steadily with the logarithm of the users")
def near_the_line(here: Results) -> Judged:
    """Each heuristic's curve against the straight line (on the logarithmic axis) between its ends."""
    distances = []
    for source in HEURISTICS:
        rows = curve(here.rows.where(metric=HR), source)
        if len(rows) < 3 or rows[-1].source != FULL:
            continue
        first, *between, last = rows
        span = log(last.users / first.users)
        off = [
            abs(p.value - (first.value + (last.value - first.value) * log(p.users / first.users) / span))
            / last.value
            for p in between
        ]
        distances.append((fmean(off), source))
    if not distances:
        return None, "too few budgets were measured"
    lines = "; ".join(f"{label(source)} {100 * off:.1f} %" for off, source in distances)
    return max(distances)[0] <= NEAR, f"mean distance from it in percent of the full {HR}: {lines}"


@claimed("Of the heuristic samplers, User-RNS is slightly the best")
def best_heuristic(here: Results) -> Judged:
    averages = means(here.rows)
    if len(averages) < 2 or "user-rns" not in averages:
        return None
    best = max(averages, key=lambda source: averages[source])
    lines = "; ".join(f"{label(source)} {number(HR, value)}" for source, value in averages.items())
    return best == "user-rns", f"mean {HR} over the budgets: {lines}"


def means(rows: Rows) -> dict[str, float]:
    """Each heuristic's mean over the budgets that all of them have."""
    of_sources = {source: rows.where(metric=HR, source=source) for source in HEURISTICS}
    present = {source: own for source, own in of_sources.items() if own}
    shared = set.intersection(*(set(own.every("users")) for own in present.values())) if present else set()
    return {
        source: fmean(r.value for r in own if r.users in shared) for source, own in present.items() if shared
    }


# ---- claims: summaries -----------------------------------------------------------------------------------
@claimed("On distilled data quality saturates quickly with the number of users")
def saturates(here: Results) -> Judged:
    parts, verdicts = [], []
    for source in (DISTILLED, f"{DISTILLED}-soft"):
        rows = here.rows.where(metric=HR, source=source).by("users")
        from_500 = rows.where(users=lambda users: users >= 500)
        if len(from_500) < 2 or (best := rows.best) is None:
            continue
        first = from_500[0]
        verdicts.append((best.value - first.value) / best.value <= SATURATED)
        parts.append(
            f"{label(source)}: {first} with {first.users}, at most {best} with up to {rows[-1].users:,} users"
        )
    if not parts:
        return None, "no budgets of 500 and more were measured"
    return all(verdicts), "; ".join(parts)


def transfers(model: str) -> Claimed:
    """At 500 users (or the nearest below): near the full data, and above every heuristic."""

    @claimed(f"Summaries made through ∞-AE serve {label(model)} as well: they transfer")
    def judge(here: Results) -> Judged:
        rows = here.rows.where(metric=HR)
        full = rows.get(source=FULL)
        summaries = rows.where(source=DISTILLED, users=lambda users: users <= 500)
        if full is None or not summaries:
            return None
        own = summaries.by("users")[-1]
        best = rows.where(users=own.users, source=HEURISTICS).best
        if best is None:
            return None
        share = own.value / full.value if full.value else 0.0
        return (
            share >= TRANSFERS and own.value > best.value,
            f"{HR} with {own.users} users: distilled {own} ({100 * share:.0f} % of {full} on all users), "
            f"{label(best.source)} {best}",
        )

    return judge


@claimed("MVAE on distilled data is better than MVAE on the full data")
def better_than_full(here: Results) -> Judged:
    rows = here.rows.where(metric=HR)
    full, best = rows.get(source=FULL), rows.where(source=lambda source: source.startswith(DISTILLED)).best
    if full is None or best is None:
        return None
    return (
        best.value > full.value,
        f"{HR} {best} on {label(best.source)} with {best.users:,} users, {full} on all {full.users:,} users",
    )


@claimed(
    "Interaction-RNS is the exception among the samplers: for MVAE it scales as for ∞-AE, not as for EASE"
)
def interactions_differ(here: Results) -> Judged:
    """Where Interaction-RNS stands among the heuristics for MVAE, for EASE and for ∞-AE."""
    shares = {}
    for model, name in (("mvae", ""), ("ease", "transfer-ease"), ("infinite-ae", "sample-efficiency")):
        rows = here.others(name).rows.where(dataset=here.dataset) if name else here.rows
        others = means(rows)
        own = others.pop("interaction-rns", None)
        if own is None or not others:
            needed = "transfer-mvae, transfer-ease and sample-efficiency"
            return None, f"needs {needed}; {label(model)} is not measured yet"
        shares[model] = own / fmean(others.values())
    from_ease, from_ours = (abs(shares["mvae"] - shares[other]) for other in ("ease", "infinite-ae"))
    lines = ", ".join(f"{share:.3f} for {label(model)}" for model, share in shares.items())
    return (
        from_ease > APART and from_ours < from_ease,
        f"its mean {HR} relative to the other samplers' is {lines} (to hold: more than {APART:g} from EASE, "
        "and nearer to ∞-AE)",
    )


# ---- users that AR-CF makes ------------------------------------------------------------------------------
def augmented(plan: Plan, dataset: str) -> Iterator[Cell]:
    """The cells of transfer-ease, and AR-CF's users in the same numbers."""
    yield from varied("ease", plan, dataset)
    quick = pairs(epochs=QUICK_EPOCHS) if plan.quick else ()
    for users in plan.budgets(dataset):
        yield Cell(dataset, 0, Data(GENERATED, users, settings=quick), (plan.fit(dataset, "ease"),))


@claimed("Training only on users made by augmentation is impractical: they are realistic, not informative")
def impractical(here: Results) -> Judged:
    """Below Distill-CF's users at every budget, and never near the full data."""
    rows = here.rows.where(metric=HR)
    generated_rows, full = rows.where(source=GENERATED), rows.get(source=FULL)
    lines, below = [], []
    for one in generated_rows.by("users"):
        other, random = (rows.get(source=source, users=one.users) for source in (DISTILLED, "user-rns"))
        if other is not None:
            below.append(one.value < other.value)
            line = f"{one.users:,} users: AR-CF {one}, distilled {other}"
            lines.append(f"{line}, User-RNS {random}" if random else line)
    if full is None or not lines:
        return None
    share = max(row.value for row in generated_rows) / full.value if full.value else 0.0
    return (
        all(below) and share < PRACTICAL,
        f"{HR} of EASE with {'; '.join(lines)}; at its best AR-CF reaches {100 * share:.0f} % of {full} on "
        "all users",
    )


def looks(here: Results) -> Table:
    """How much AR-CF's users look like the log's, by their number: before training, after, and real ones."""
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
        f"{here.dataset}: does AR-CF learn? Popularity: total variation between the items' shares and the "
        "log's (0: the same). Co-occurrence: correlation of the pairs' correlations with the log's (1: the "
        "same).",
        ("users", *(f"{key}, {side}" for key in keys.values() for side in sides.values())),
        lines,
    )


# ---- the experiments --------------------------------------------------------------------------------------
NOTES = (
    "Interaction-RNS with a budget of N users takes the share N / all users of the interactions; it "
    "keeps nearly all users, each with few items.",
    "The paper's summaries are fractional; both kinds are shown here. λ of ∞-AE is chosen on "
    "validation for every sample; trained models have the settings chosen on the full data, but stop "
    "early on validation.",
)
NOTE_ON_AR_CF = (
    "AR-CF is trained once for each seed on the whole train part, whatever the number of users that "
    "are then made. Only its user generator is used, as in the paper."
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
AUGMENTATION = experiment(
    "augmentation",
    "ease",
    title="How do distilled users compare with augmented ones?",
    source="appendix",
    about="EASE on users generated by AR-CF, on distilled and on sampled ones, 50 to 2,000 of them.",
    varied=augmented,
    claims=(impractical,),
    tables=lambda each: [*tables("ease", each), *map(looks, each)],
    notes=(NOTE_ON_AR_CF, *NOTES),
)
