"""Figure 4 and its appendix: ∞-AE and EASE on noisy data, against the number of users."""

from __future__ import annotations

from collections.abc import Sequence

from infrec.paper import noise as single
from infrec.paper import published, scaling
from infrec.paper.cells import DISTILLED, FULL, Cell, Data
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, Rows
from infrec.paper.table1 import CORE
from infrec.report.document import Claim, Figure, Findings, Panel, Series, Table, Value, claim
from infrec.report.numbers import label, number, signed

MODELS = ("infinite-ae", "ease")
SOURCES = ("user-rns", DISTILLED)


def cells(plan: Plan) -> list[Cell]:
    out = []
    for dataset in plan.datasets:
        for noise in single.levels(plan):
            again = single.AGAIN if noise else ()
            for model in MODELS:
                fit = (plan.fit(dataset, model),)
                out.append(Cell(dataset, 0, Data(noise=noise), fit, again or CORE))
                for users in plan.budgets(dataset):
                    out.append(Cell(dataset, 0, Data("user-rns", users, noise), fit, again))
                    out.append(Cell(dataset, 0, plan.distilled(users, noise=noise), fit, again))
    return plan.grid(out)


def panel(noise: float, rows: Rows, metric: str) -> Panel:
    """Four lines: each model on each source; rows are of one dataset and noise."""
    here = rows.where(metric=metric)
    series = []
    for model in MODELS:
        for source in SOURCES:
            points = tuple(map(scaling.point, scaling.curve(here.where(model=model), source)))
            series += [Series(f"{model}|{source}", points)] if points else []
    return Panel(
        f"{noise:g} % noise",
        "users",
        metric if metric == "AUC" else f"{metric} (%)",
        tuple(series),
        log_x=True,
    )


def figures(rows: Rows, datasets: Sequence[str]) -> list[Figure]:
    out = []
    for dataset in datasets:
        here = rows.where(dataset=dataset)
        for suffix, metrics in (("", ("HR@10",)), ("-all", published.METRICS)):
            panels = tuple(
                tuple(panel(noise, here.where(noise=noise), metric) for noise in here.every("noise"))
                for metric in metrics
            )
            caption = (
                f"∞-AE and EASE on {dataset} with noise, fitted on users drawn at random or distilled; the "
                "last point of User-RNS is all users. Bands are 95 % intervals over users."
            )
            out.append(Figure(f"noise-{dataset}{suffix}", caption, panels, same_y=True))
    return out


def table(dataset: str, rows: Rows, metric: str = "HR@10") -> Table:
    """Models, sources and budgets down, noise across."""
    here = rows.where(dataset=dataset, metric=metric)
    noises = here.every("noise")
    lines = []
    for model in MODELS:
        for source in (FULL, *SOURCES):
            own = here.where(model=model, source=source)
            for users in own.every("users"):
                cells_: list[str | Value] = []
                for noise in noises:
                    row = own.get(users=users, noise=noise)
                    cells_.append(
                        Value(metric, None)
                        if row is None
                        else Value(
                            metric, row.value, row.low, row.high, row.paper if source == FULL else None
                        )
                    )
                lines.append(
                    (f"{label(model)}, {label(source)}" + (f", {users:,}" if source != FULL else ""), *cells_)
                )
    head = ("model, source, users", *(f"{noise:g} %" for noise in noises))
    return Table(f"{dataset}: {metric} by the share of items flipped before sampling.", head, tuple(lines))


# ---- claims ----------------------------------------------------------------------------------------------
def gap_grows(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    """With most noise ∞-AE must lead, by more than anywhere, and noise must nowhere help EASE instead."""
    text = "On all users, the gap between ∞-AE and EASE grows with noise"
    gaps = []
    for noise in rows.every("noise"):
        ours, ease = (rows.get(model=model, source=FULL, noise=noise, metric=metric) for model in MODELS)
        if ours is not None and ease is not None:
            gaps.append((noise, ours.value - ease.value))
    if len(gaps) < 2:
        return claim(text, dataset, None, "nothing measured yet.")
    (_, before), *rest = gaps
    most = rest[-1][1]
    rising = most > 0 and most > before and all(before <= gap <= most for _, gap in rest)
    lines = ", ".join(f"{signed(gap, 2)} at {noise:g} %" for noise, gap in gaps)
    return claim(text, dataset, rising, f"∞-AE minus EASE in {metric}: {lines}.")


def small_beats_full(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "At 5 % noise, EASE on a tiny distilled summary is better than EASE on the full data"
    full = rows.get(model="ease", source=FULL, noise=5.0, metric=metric)
    made = rows.where(model="ease", source=DISTILLED, noise=5.0, metric=metric)
    if full is None or not made:
        return claim(text, dataset, None, "5 % noise was not measured.")
    smallest = min((row for row in made if row.value > full.value), key=lambda row: row.users, default=None)
    best = max(made, key=lambda row: row.value)
    shown = smallest or best
    return claim(
        text,
        dataset,
        smallest is not None and smallest.users <= 500,
        f"{metric} {number(metric, shown.value)} on {shown.users} distilled users, "
        f"{number(metric, full.value)} on all.",
    )


def fewer_is_better(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "At 5 % noise, EASE is best on the smaller distilled summaries"
    made = sorted(
        rows.where(model="ease", source=DISTILLED, noise=5.0, metric=metric), key=lambda row: row.users
    )
    if len(made) < 2:
        return claim(text, dataset, None, "5 % noise was not measured.")
    best = max(made, key=lambda row: row.value)
    lines = ", ".join(f"{number(metric, row.value)} ({row.users})" for row in made)
    return claim(text, dataset, made.index(best) < len(made) / 2, f"{metric} by number of users: {lines}.")


def findings(results: Results) -> Findings:
    rows, datasets = results.rows.where(model=lambda model: model in MODELS), results.datasets()
    clean = rows.where(histories="clean")
    claims = [
        check(dataset, clean.where(dataset=dataset))
        for dataset in datasets
        for check in (gap_grows, small_beats_full, fewer_is_better)
    ]
    tables = [table(dataset, clean) for dataset in datasets]
    noisy = Rows([*rows.where(histories="noisy"), *clean.where(noise=0.0)])
    if rows.where(histories="noisy"):
        for dataset in datasets:
            again = table(dataset, noisy)
            caption = (
                again.caption.removesuffix(".") + "; here the noise is in the test users' histories, too."
            )
            tables.append(Table(caption, again.head, again.rows))
    return Findings(claims, figures(clean, datasets) if clean else (), tables, single.notes())


EXPERIMENT = Experiment(
    name="noise-infinite-ae",
    title="How robust is ∞-AE to noise?",
    source="Figure 4 and appendix",
    about="∞-AE and EASE on noisy data: users at random and distilled ones, 50 to 2,000, and all users.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban-book"),
)
