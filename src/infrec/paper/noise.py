"""Figures 3 and 4 with their appendix: noisy train data.

What does EASE lose when noisy data is sampled? How do ∞-AE and EASE do on it, against the number of users?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from infrec.paper import published, scaling
from infrec.paper.cells import DISTILLED, FULL, HEURISTICS, Cell, Data
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, Row, Rows
from infrec.paper.table1 import CORE
from infrec.paper.views import axis, pivot, series, value
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Table, Value, claim
from infrec.report.numbers import label, number, signed

EASE = "ease"
MODELS = ("infinite-ae", EASE)
LEVELS = (0.0, 0.5, 1.0, 2.0, 5.0)
QUICK_LEVELS = (0.0, 1.0, 5.0)
BUDGETS = (100, 500)
SOURCES = (*HEURISTICS, DISTILLED)
SCALED = ("user-rns", DISTILLED)
AGAIN = ("noisy histories",)
NOTES = [
    "The noise flips exactly that share of all items for every user of the train part, before "
    "sampling. Models and λ are judged with the users' own, noise-free histories and test items; the "
    "paper does not say whether its test histories carried the noise, so the second table has it in "
    "them (an item that noise puts into a history is then masked, and the propensities of PSP are "
    "those of the noisy log).",
]


def cells(
    plan: Plan, models: Sequence[str], samplers: Sequence[str], budgets: Callable[[str], Sequence[int]]
) -> list[Cell]:
    """Each model at each level of noise: on all users, and on those of each sampler and of Distill-CF."""
    out = []
    for dataset in plan.datasets:
        for noise in QUICK_LEVELS if plan.quick else LEVELS:
            again = AGAIN if noise else ()
            for model in models:
                fit = (plan.fit(dataset, model),)
                out.append(Cell(dataset, 0, Data(noise=noise), fit, again or CORE))
                for users in budgets(dataset):
                    out += [Cell(dataset, 0, Data(source, users, noise), fit, again) for source in samplers]
                    out.append(Cell(dataset, 0, plan.distilled(users, noise=noise), fit, again))
    return plan.grid(out)


def sampled_cells(plan: Plan) -> list[Cell]:
    first = -1 if plan.quick else 0
    return cells(plan, (EASE,), HEURISTICS, lambda dataset: plan.budgets(dataset, BUDGETS)[first:])


# ---- tables ------------------------------------------------------------------------------------------------
def table(caption: str, corner: str, lines: Mapping[str, Rows], metric: str = "HR@10") -> Table:
    """Lines down, noise across. lines: by name, the rows of one model, source and number of users."""
    noises = sorted({row.noise for rows in lines.values() for row in rows})

    def cell(rows: Rows) -> Callable[[float], Value]:
        return lambda noise: value(metric, rows.get(noise=noise), paper=rows[0].source == FULL)

    columns = {f"{noise:g} %": noise for noise in noises}
    return pivot(
        f"{caption}: {metric} by the share of items flipped before sampling.",
        corner,
        columns,
        [(name, cell(rows)) for name, rows in lines.items()],
    )


def tables(rows: Rows, datasets: Sequence[str], of: Callable[[str, Rows], Table]) -> list[Table]:
    """The table of each dataset; then those with the noise in the test users' histories as well."""
    clean, noisy = rows.where(histories="clean"), rows.where(histories="noisy")
    out = [of(dataset, clean.where(dataset=dataset, metric="HR@10")) for dataset in datasets]
    if noisy:
        also = Rows([*noisy, *clean.where(noise=0.0)])
        for dataset in datasets:
            again = of(dataset, also.where(dataset=dataset, metric="HR@10"))
            caption = again.caption.removesuffix(".")
            out.append(
                replace(again, caption=f"{caption}; here the noise is in the test users' histories, too.")
            )
    return out


def sampled_table(dataset: str, rows: Rows) -> Table:
    """Sources and budgets down, noise across."""
    lines = {
        f"{label(source)}, {users:,}" if source != FULL else label(source): rows.where(
            source=source, users=users
        )
        for source in (FULL, *SOURCES)
        for users in rows.where(source=source).every("users")
    }
    return table(f"EASE on {dataset}", "source, users", lines)


def scaled_table(dataset: str, rows: Rows) -> Table:
    """Models, sources and budgets down, noise across."""
    lines = {}
    for model in MODELS:
        for source in (FULL, *SCALED):
            own = rows.where(model=model, source=source)
            for users in own.every("users"):
                size = f", {users:,}" if source != FULL else ""
                lines[f"{label(model)}, {label(source)}{size}"] = own.where(users=users)
    return table(dataset, "model, source, users", lines)


# ---- figures: the drop against the full, noise-free data; quality by the number of users -------------------
def drop(value: float, full: Row) -> float:
    """In percent of the full, noise-free value; negative where it is a gain."""
    return 100 * (full.value - value) / full.value


def drop_panel(title: str, rows: Rows, metric: str) -> Panel:
    """The drop over the noise, one line for each source; rows are of one dataset and budget."""
    full = rows.get(source=FULL, noise=0.0, metric=metric)
    points: dict[str, list[Point]] = {}
    if full is not None:
        for source in (*SOURCES, FULL):
            own = sorted(rows.where(source=source, metric=metric), key=lambda row: row.noise)
            points[source] = [
                Point(row.noise, drop(row.value, full), drop(row.high, full), drop(row.low, full), row.seeds)
                for row in own
            ]
    return Panel(title, "items flipped per user (%)", f"drop in {metric} (%)", series(points))


def _by_budget(dataset: str, rows: Rows) -> dict[str, Rows]:
    """The rows of each number of users, with those of all users, by a title."""
    here = rows.where(dataset=dataset)
    return {
        f"{dataset}, {users:,} users": Rows(row for row in here if row.users == users or row.source == FULL)
        for users in here.where(source=lambda source: source != FULL).every("users")
    }


def sampled_figures(rows: Rows, datasets: Sequence[str]) -> list[Figure]:
    out = []
    for suffix, metrics in (("", ("HR@10",)), ("-all", published.METRICS)):
        panels = tuple(
            tuple(drop_panel(title, own, metric) for title, own in _by_budget(dataset, rows).items())
            for dataset in datasets
            for metric in metrics
        )
        caption = (
            f"What {label(EASE)} loses when data is noisy and then sampled, in percent of what it reaches "
            "on the full, noise-free data. Bands are 95 % intervals over users; negative is a gain."
        )
        out.append(Figure(f"noise-samplers{suffix}", caption, panels, same_y=True))
    return out


def scaled_panel(noise: float, rows: Rows, metric: str) -> Panel:
    """Four lines: each model on each source; rows are of one dataset and noise."""
    points = {
        f"{model}|{source}": scaling.points(rows.where(metric=metric, model=model), source)
        for model in MODELS
        for source in SCALED
    }
    return Panel(f"{noise:g} % noise", "users", axis(metric), series(points), log_x=True)


def scaled_figures(rows: Rows, datasets: Sequence[str]) -> list[Figure]:
    out = []
    for dataset in datasets:
        here = rows.where(dataset=dataset)
        for suffix, metrics in (("", ("HR@10",)), ("-all", published.METRICS)):
            panels = tuple(
                tuple(scaled_panel(noise, here.where(noise=noise), metric) for noise in here.every("noise"))
                for metric in metrics
            )
            caption = (
                f"∞-AE and EASE on {dataset} with noise, fitted on users drawn at random or distilled; the "
                "last point of User-RNS is all users. Bands are 95 % intervals over users."
            )
            out.append(Figure(f"noise-{dataset}{suffix}", caption, panels, same_y=True))
    return out


# ---- claims ----------------------------------------------------------------------------------------------
def compounds(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "Sampling noisy data compounds the loss of sampling and the loss of noise"
    here = rows.where(metric=metric)
    noise = max(here.every("noise"), default=0.0)
    full, noisy_full = here.get(source=FULL, noise=0.0), here.get(source=FULL, noise=noise)
    worse, parts = [], []
    for source in HEURISTICS:
        for users in here.where(source=source).every("users"):
            both, clean = (here.get(source=source, users=users, noise=level) for level in (noise, 0.0))
            if both is None or clean is None or full is None or noisy_full is None or not noise:
                continue
            alone = max(drop(clean.value, full), drop(noisy_full.value, full))
            worse.append(drop(both.value, full) > alone)
            parts.append(f"{label(source)} {users}: {drop(both.value, full):.1f} against {alone:.1f}")
    if not worse:
        return claim(text, dataset, None)
    figures = (
        f"{sum(worse)} of {len(worse)} samples lose more; drop in {metric} (%) with {noise:g} % noise and "
        "sampling, against the larger of either alone: "
    )
    return claim(text, dataset, all(worse), figures + "; ".join(parts) + ".")


Leads = dict[int, list[tuple[float, float]]]  # number of users → (noise, lead)


def leads(rows: Rows, source: str, lead: Callable[[float, list[float]], float]) -> Leads:
    """How far a source is ahead of the samplers. lead: of its value over theirs."""
    out: Leads = {}
    for users in rows.where(source=source).every("users"):
        for noise in rows.every("noise"):
            own = rows.get(source=source, users=users, noise=noise)
            rivals = rows.where(
                source=lambda rival: rival in HEURISTICS and rival != source, users=users, noise=noise
            )
            if own is not None and rivals:
                out.setdefault(users, []).append((noise, lead(own.value, [row.value for row in rivals])))
    return out


def best_trade_off(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = (
        "Distill-CF has the best trade-off between noise, sampling and quality, and its lead grows with noise"
    )
    gaps = leads(rows.where(metric=metric), DISTILLED, lambda own, rivals: own - max(rivals))
    if not any(len(of_users) > 1 for of_users in gaps.values()):
        return claim(text, dataset, None)
    best = all(gap > 0 for of_users in gaps.values() for _, gap in of_users)
    grows = all(of_users[-1][1] > of_users[0][1] for of_users in gaps.values())
    lines = "; ".join(
        f"{users} users: " + ", ".join(f"{signed(gap)} at {noise:g} %" for noise, gap in of_users)
        for users, of_users in gaps.items()
    )
    return claim(text, dataset, best and grows, f"lead over the best sampler in {metric}: {lines}.")


def head_users(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    def over_mean(own: float, rivals: list[float]) -> float:
        mean = fmean(rivals)
        return 100 * (own - mean) / mean if mean else 0.0

    text = "Head-user sampling gains on the other samplers with more noise and fewer users"
    gains = leads(rows.where(metric=metric), "head-user", over_mean)
    if not any(len(of_users) > 1 for of_users in gains.values()):
        return claim(text, dataset, None)
    more_noise = all(of_users[-1][1] > of_users[0][1] for of_users in gains.values())
    fewer_users = len(gains) < 2 or gains[min(gains)][-1][1] > gains[max(gains)][-1][1]
    lines = "; ".join(
        f"{users} users: " + ", ".join(f"{signed(gain, 0)} % at {noise:g} %" for noise, gain in of_users)
        for users, of_users in gains.items()
    )
    figures = f"{metric} relative to the other samplers' mean: {lines}."
    return claim(text, dataset, more_noise and fewer_users, figures)


def gap_grows(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    """With most noise ∞-AE must lead, by more than anywhere, and noise must nowhere help EASE instead."""
    text = "On all users, the gap between ∞-AE and EASE grows with noise"
    gaps = []
    for noise in rows.every("noise"):
        ours, ease = (rows.get(model=model, source=FULL, noise=noise, metric=metric) for model in MODELS)
        if ours is not None and ease is not None:
            gaps.append((noise, ours.value - ease.value))
    if len(gaps) < 2:
        return claim(text, dataset, None)
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


# ---- the two experiments -----------------------------------------------------------------------------------
def findings(
    results: Results,
    models: Sequence[str],
    claims: Sequence[Callable[[str, Rows], Claim]],
    figures: Callable[[Rows, Sequence[str]], list[Figure]],
    of: Callable[[str, Rows], Table],
) -> Findings:
    """Claims, figures and tables of the models' rows on each dataset."""
    rows, datasets = results.rows.where(model=lambda model: model in models), results.datasets()
    clean = rows.where(histories="clean")
    return Findings(
        [check(dataset, clean.where(dataset=dataset)) for dataset in datasets for check in claims],
        figures(clean, datasets) if clean else (),
        tables(rows, datasets, of),
        NOTES,
    )


NOISE_SAMPLERS = Experiment(
    name="noise-samplers",
    title="What does sampling noisy data cost?",
    source="Figure 3 and appendix",
    about="EASE on noisy train data, sampled or distilled to 100 and 500 users, and on all users.",
    cells=sampled_cells,
    findings=lambda results: findings(
        results, (EASE,), (compounds, best_trade_off, head_users), sampled_figures, sampled_table
    ),
    datasets=("ml-1m", "magazine", "douban-book"),
)
NOISE_INFINITE_AE = Experiment(
    name="noise-infinite-ae",
    title="How robust is ∞-AE to noise?",
    source="Figure 4 and appendix",
    about="∞-AE and EASE on noisy data: users at random and distilled ones, 50 to 2,000, and all users.",
    cells=lambda plan: cells(plan, MODELS, SCALED[:1], plan.budgets),
    findings=lambda results: findings(
        results, MODELS, (gap_grows, small_beats_full, fewer_is_better), scaled_figures, scaled_table
    ),
    datasets=("ml-1m", "magazine", "douban-book"),
)
