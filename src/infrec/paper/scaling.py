"""Quality against the number of users a model is fitted on: what Figures 1, 2 and 4 have in common.

Figure 1 (∞-AE), Figure 2 (EASE) and a figure of the appendix (MVAE), each on samples and summaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log
from statistics import fmean

from infrec.paper import published
from infrec.paper.cells import CLOSED_FORM, DISTILLED, FULL, GENERATED, HEURISTICS, Cell, Data
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, Row, Rows
from infrec.paper.table1 import CORE
from infrec.paper.views import axis, pivot, point, series, value
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Table, Value, claim
from infrec.report.numbers import label, number

SOURCES = (*HEURISTICS, GENERATED, DISTILLED, f"{DISTILLED}-soft")
SHOWN = ("HR@10", "PSP@10")  # of the main figure; the rest is the appendix's
NEAR, SATURATED, TRANSFERS = 0.10, 0.05, 0.95

INFINITE_AE, EASE, MVAE = "infinite-ae", "ease", "mvae"
APART = 0.1  # of a share: what counts as another behaviour


def cells(plan: Plan, model: str) -> list[Cell]:
    """One model on every source and budget, and on all users."""
    out = []
    for dataset in plan.datasets:
        out.append(Cell(dataset, 0, Data(), (plan.fit(dataset, model),), CORE))
        fit = plan.fit(dataset, model, whole=False)
        budgets = plan.budgets(dataset)
        for users in budgets[-1:] if plan.quick and model not in CLOSED_FORM else budgets:
            out += [Cell(dataset, 0, Data(source, users), (fit,)) for source in HEURISTICS]
            out += [
                Cell(dataset, 0, plan.distilled(users, mode), (fit,))
                for mode in (("discrete",) if plan.quick else ("discrete", "soft"))
            ]
    return plan.grid(out)


# ---- figures and tables ----------------------------------------------------------------------------------
def curve(rows: Rows, source: str) -> list[Row]:
    """One source's rows by number of users, up to all of them."""
    own = list(rows.where(source=source))
    full = list(rows.where(source=FULL)) if source in HEURISTICS else []
    return sorted([*own, *full], key=lambda row: row.users)


def points(rows: Rows, source: str) -> list[Point]:
    """The curve of a source: quality over users."""
    return [point(row.users, row) for row in curve(rows, source)]


def panel(title: str, rows: Rows, metric: str, sources: Sequence[str] = SOURCES) -> Panel:
    """Quality over users; the dashed line is the model on all users."""
    here = rows.where(metric=metric)
    full = here.get(source=FULL)
    return Panel(
        title,
        "users",
        axis(metric),
        series({source: points(here, source) for source in sources}),
        log_x=True,
        line=None if full is None else (full.value, "all users"),
    )


def figures(stem: str, model: str, rows: Rows, datasets: Sequence[str]) -> list[Figure]:
    """The main figure, and the appendix's with every metric."""
    out = []
    for suffix, metrics in (("", SHOWN), ("-all", published.METRICS)):
        panels = tuple(
            tuple(panel(dataset, rows.where(dataset=dataset), metric) for dataset in datasets)
            for metric in metrics
        )
        what = " and ".join(SHOWN) if not suffix else "all metrics"
        caption = (
            f"{label(model)} fitted on fewer and fewer users, chosen or made by each strategy: {what}. "
            "Bands are 95 % intervals over users, means over seeds; the dashed line is the model on all "
            "users."
        )
        out.append(Figure(f"{stem}{suffix}", caption, panels))
    return out


def table(model: str, dataset: str, rows: Rows, metric: str = "HR@10") -> Table:
    """Sources down, budgets across."""
    here = rows.where(dataset=dataset, metric=metric)
    budgets = here.where(source=lambda source: source != FULL).every("users")
    columns = {f"{users:,}": users for users in budgets} | {"all": None}
    lines = [(source, label(source)) for source in SOURCES if here.where(source=source)]
    if here.get(source=FULL) is not None:
        lines.append((FULL, "all users"))

    def cell(source: str) -> Callable[[int | None], Value]:
        def of(users: int | None) -> Value:
            if (source == FULL) != (users is None):
                return Value(metric, None)
            row = here.get(source=source) if users is None else here.get(source=source, users=users)
            return value(metric, row, paper=source == FULL)

        return of

    caption = f"{label(model)} on {dataset}: {metric} by source and number of users."
    return pivot(caption, "source", columns, [(name, cell(source)) for source, name in lines])


# ---- claims ----------------------------------------------------------------------------------------------
def near_the_line(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    """Each heuristic's curve against the straight line (on the logarithmic axis) between its ends."""
    text = "Heuristic samplers lie near the line: quality grows steadily with the logarithm of the users"
    found = []
    for source in HEURISTICS:
        points = curve(rows.where(metric=metric), source)
        if len(points) < 3 or points[-1].source != FULL:
            continue
        first, last = points[0], points[-1]
        span = log(last.users / first.users)
        off = [
            abs(p.value - (first.value + (last.value - first.value) * log(p.users / first.users) / span))
            / last.value
            for p in points[1:-1]
        ]
        found.append((fmean(off), source))
    if not found:
        return claim(text, dataset, None, "too few budgets were measured.")
    lines = "; ".join(f"{label(source)} {100 * off:.1f} %" for off, source in found)
    return claim(
        text,
        dataset,
        max(found)[0] <= NEAR,
        f"mean distance from it in percent of the full {metric}: {lines}.",
    )


def best_heuristic(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "Of the heuristic samplers, User-RNS is slightly the best"
    averages = means(rows, metric, HEURISTICS)
    if len(averages) < 2 or "user-rns" not in averages:
        return claim(text, dataset, None)
    best = max(averages, key=lambda source: averages[source])
    lines = "; ".join(f"{label(source)} {number(metric, value)}" for source, value in averages.items())
    return claim(text, dataset, best == "user-rns", f"mean {metric} over the budgets: {lines}.")


def saturates(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "On distilled data quality saturates quickly with the number of users"
    parts, verdicts = [], []
    for source in (DISTILLED, f"{DISTILLED}-soft"):
        points = list(rows.where(metric=metric, source=source))
        points.sort(key=lambda row: row.users)
        from_500 = [row for row in points if row.users >= 500]
        if len(from_500) < 2:
            continue
        best = max(row.value for row in points)
        short = (best - from_500[0].value) / best
        verdicts.append(short <= SATURATED)
        parts.append(
            f"{label(source)}: {number(metric, from_500[0].value)} with {from_500[0].users}, at most "
            f"{number(metric, best)} with up to {points[-1].users:,} users"
        )
    if not parts:
        return claim(text, dataset, None, "no budgets of 500 and more were measured.")
    return claim(text, dataset, all(verdicts), "; ".join(parts) + ".")


def transfers(dataset: str, rows: Rows, model: str, metric: str = "HR@10") -> Claim:
    """At 500 users (or the nearest below): near the full data, and above every heuristic."""
    text = f"Summaries made through ∞-AE serve {label(model)} as well: they transfer"
    full = rows.get(source=FULL, metric=metric)
    budgets = [users for users in rows.where(source=DISTILLED).every("users") if users <= 500]
    if full is None or not budgets:
        return claim(text, dataset, None)
    users = max(budgets)
    own = rows.get(source=DISTILLED, users=users, metric=metric)
    rivals = rows.where(users=users, metric=metric, source=lambda source: source in HEURISTICS)
    if own is None or not rivals:
        return claim(text, dataset, None)
    best = max(rivals, key=lambda row: row.value)
    share = own.value / full.value if full.value else 0.0
    return claim(
        text,
        dataset,
        share >= TRANSFERS and own.value > best.value,
        f"{metric} with {users} users: distilled {number(metric, own.value)} ({100 * share:.0f} % of "
        f"{number(metric, full.value)} on all users), {label(best.source)} {number(metric, best.value)}.",
    )


def means(rows: Rows, metric: str, sources: Sequence[str]) -> dict[str, float]:
    """The mean over the budgets that every source has."""
    here = rows.where(metric=metric)
    present = [source for source in sources if here.where(source=source)]
    shared = (
        set.intersection(*(set(here.where(source=s).every("users")) for s in present)) if present else set()
    )
    out = {}
    for source in present:
        values = [row.value for row in here.where(source=source) if row.users in shared]
        if values:
            out[source] = fmean(values)
    return out


def notes() -> list[str]:
    return [
        "Interaction-RNS with a budget of N users takes the share N / all users of the interactions; it "
        "keeps nearly all users, each with few items.",
        "The paper's summaries are fractional; both kinds are shown here. λ of ∞-AE is chosen on "
        "validation for every sample; trained models have the settings chosen on the full data, but stop "
        "early on validation.",
    ]


def better_than_full(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "MVAE on distilled data is better than MVAE on the full data"
    full = rows.get(source=FULL, metric=metric)
    made = rows.where(metric=metric, source=lambda source: source.startswith(DISTILLED))
    if full is None or not made:
        return claim(text, dataset, None)
    best = max(made, key=lambda row: row.value)
    return claim(
        text,
        dataset,
        best.value > full.value,
        f"{metric} {number(metric, best.value)} on {label(best.source)} with {best.users:,} users, "
        f"{number(metric, full.value)} on all {full.users:,} users.",
    )


def interactions_differ(dataset: str, of_models: Mapping[str, Rows], metric: str = "HR@10") -> Claim:
    """Where Interaction-RNS stands among the heuristics for MVAE, for EASE and for ∞-AE."""
    text = (
        "Interaction-RNS is the exception among the samplers: for MVAE it scales as for ∞-AE, not as for EASE"
    )
    shares = {}
    for model, own in of_models.items():
        averages = means(own, metric, HEURISTICS)
        others = [value for source, value in averages.items() if source != "interaction-rns"]
        if "interaction-rns" not in averages or not others:
            needed = "transfer-mvae, transfer-ease and sample-efficiency"
            return claim(text, dataset, None, f"needs {needed}; {label(model)} is not measured yet.")
        shares[model] = averages["interaction-rns"] / fmean(others)
    from_ease, from_ours = (abs(shares[MVAE] - shares[other]) for other in ("ease", "infinite-ae"))
    lines = ", ".join(f"{share:.3f} for {label(model)}" for model, share in shares.items())
    return claim(
        text,
        dataset,
        from_ease > APART and from_ours < from_ease,
        f"its mean {metric} relative to the other samplers' is {lines} (to hold: more than {APART:g} from "
        f"EASE, and nearer to ∞-AE).",
    )


# ---- the three experiments --------------------------------------------------------------------------------
def findings(
    stem: str, model: str, results: Results, claims: Callable[[str, Rows, Results], Sequence[Claim]]
) -> Findings:
    """Figures and tables of one model on every source, and its claims on each dataset."""
    rows, datasets = results.rows, results.datasets()
    return Findings(
        claims=[one for name in datasets for one in claims(name, rows.where(dataset=name), results)],
        figures=figures(stem, model, rows, datasets) if rows else (),
        tables=[table(model, dataset, rows) for dataset in datasets],
        notes=notes(),
    )


def _infinite_ae_claims(dataset: str, rows: Rows, results: Results) -> list[Claim]:
    return [check(dataset, rows) for check in (near_the_line, best_heuristic, saturates)]


def _ease_claims(dataset: str, rows: Rows, results: Results) -> list[Claim]:
    return [transfers(dataset, rows, EASE)]


def _mvae_claims(dataset: str, rows: Rows, results: Results) -> list[Claim]:
    of_models = {
        MVAE: rows,
        EASE: results.others("transfer-ease").rows.where(dataset=dataset),
        INFINITE_AE: results.others("sample-efficiency").rows.where(dataset=dataset),
    }
    return [
        transfers(dataset, rows, MVAE),
        better_than_full(dataset, rows),
        interactions_differ(dataset, of_models),
    ]


SAMPLE_EFFICIENCY = Experiment(
    name="sample-efficiency",
    title="How sample efficient is ∞-AE?",
    source="Figure 1 and appendix",
    about="∞-AE on samples and summaries of 50 to 2,000 users, and on all users.",
    cells=lambda plan: cells(plan, INFINITE_AE),
    findings=lambda results: findings("sample-efficiency", INFINITE_AE, results, _infinite_ae_claims),
)
TRANSFER_EASE = Experiment(
    name="transfer-ease",
    title="Do summaries transfer to EASE?",
    source="Figure 2",
    about="EASE on the same samples and summaries as ∞-AE in sample-efficiency.",
    cells=lambda plan: cells(plan, EASE),
    findings=lambda results: findings("transfer-ease", EASE, results, _ease_claims),
)
TRANSFER_MVAE = Experiment(
    name="transfer-mvae",
    title="Do summaries transfer to MVAE?",
    source="appendix",
    about="MVAE on the same samples and summaries as ∞-AE in sample-efficiency.",
    cells=lambda plan: cells(plan, MVAE),
    findings=lambda results: findings("transfer-mvae", MVAE, results, _mvae_claims),
    datasets=("ml-1m", "magazine", "douban-book"),
)
