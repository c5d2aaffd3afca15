"""Noise as the paper adds it: a share of all items is flipped for every user (section 5).

What was an interaction is none any more, what was none becomes one. A user with few interactions is thus hit
hardest: with 5 % of 3,706 items, 185 entries of every row change, whether it held 20 or 2,000.

Figure 3 and its appendix: what does EASE lose when noisy data is sampled?
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.paper import published
from infrec.paper.cells import DISTILLED, FULL, HEURISTICS, Cell, Data
from infrec.paper.experiment import Experiment, Plan
from infrec.paper.results import Results, Row, Rows
from infrec.paper.table1 import CORE
from infrec.randomness import generator
from infrec.report.document import Claim, Figure, Findings, Panel, Point, Series, Table, Value, claim
from infrec.report.numbers import label, signed

_BLOCK_ENTRIES = 1 << 23

MODEL = "ease"
LEVELS = (0.0, 0.5, 1.0, 2.0, 5.0)
QUICK_LEVELS = (0.0, 1.0, 5.0)
BUDGETS = (100, 500)
SOURCES = (*HEURISTICS, DISTILLED)
AGAIN = ("noisy histories",)


def flips(n_items: int, percent: float) -> int:
    """How many items are flipped for each user."""
    if not 0 <= percent <= 100:
        raise ConfigError(f"noise is {percent:g} %; expected a share of the items from 0 to 100.")
    return round(percent / 100 * n_items)


def flip(log: Interactions, percent: float, *, seed: int = 42) -> Interactions:
    """For each user exactly round(percent % of the items) distinct items, all equally likely, are flipped.

    An interaction that appears has the weight 1; those that stay keep theirs. Every user and item stays, even
    one that is left with nothing. Flipping twice with the same seed gives an unweighted log back.
    """
    count = flips(log.n_items, percent)
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


def levels(plan: Plan) -> tuple[float, ...]:
    return QUICK_LEVELS if plan.quick else LEVELS


def cells(plan: Plan) -> list[Cell]:
    out = []
    for dataset in plan.datasets:
        fit = (plan.fit(dataset, MODEL),)
        for noise in levels(plan):
            again = AGAIN if noise else ()
            out.append(Cell(dataset, 0, Data(noise=noise), fit, again or CORE))
            for users in (
                plan.budgets(dataset, BUDGETS)[-1:] if plan.quick else plan.budgets(dataset, BUDGETS)
            ):
                out += [Cell(dataset, 0, Data(source, users, noise), fit, again) for source in HEURISTICS]
                out.append(Cell(dataset, 0, plan.distilled(users, noise=noise), fit, again))
    return plan.grid(out)


# ---- what is looked at: the drop against the full, noise-free data ---------------------------------------
def drop(row: Row, full: Row) -> float:
    """In percent of the full, noise-free value; negative where it is a gain."""
    return 100 * (full.value - row.value) / full.value


def panel(title: str, rows: Rows, metric: str) -> Panel:
    """The drop over the noise, one line for each source; rows are of one dataset and budget."""
    full = rows.get(source=FULL, noise=0.0, metric=metric)
    if full is None:
        return Panel(title, "items flipped per user (%)", f"drop in {metric} (%)", ())
    series = []
    for source in (*SOURCES, FULL):
        own = sorted(rows.where(source=source, metric=metric), key=lambda row: row.noise)
        points = tuple(
            Point(
                row.noise,
                drop(row, full),
                100 * (full.value - row.high) / full.value,
                100 * (full.value - row.low) / full.value,
                row.seeds,
            )
            for row in own
        )
        series += [Series(source, points)] if points else []
    return Panel(title, "items flipped per user (%)", f"drop in {metric} (%)", tuple(series))


def figures(rows: Rows, datasets: Sequence[str]) -> list[Figure]:
    out = []
    for suffix, metrics in (("", ("HR@10",)), ("-all", published.METRICS)):
        panels = []
        for dataset in datasets:
            here = rows.where(dataset=dataset)
            budgets = here.where(source=lambda source: source != FULL).every("users")
            for metric in metrics:
                panels.append(
                    tuple(
                        panel(
                            f"{dataset}, {users:,} users",
                            Rows(row for row in here if row.users == users or row.source == FULL),
                            metric,
                        )
                        for users in budgets
                    )
                )
        caption = (
            f"What {label(MODEL)} loses when data is noisy and then sampled, in percent of what it reaches "
            "on the full, noise-free data. Bands are 95 % intervals over users; negative is a gain."
        )
        out.append(Figure(f"noise-samplers{suffix}", caption, tuple(panels), same_y=True))
    return out


def table(dataset: str, rows: Rows, metric: str = "HR@10") -> Table:
    """Sources and budgets down, noise across."""
    here = rows.where(dataset=dataset, metric=metric)
    noises = here.every("noise")
    lines = []
    for source in (FULL, *SOURCES):
        for users in here.where(source=source).every("users"):
            own = here.where(source=source, users=users)
            cells_: list[str | Value] = []
            for noise in noises:
                row = own.get(noise=noise)
                paper = row.paper if row is not None and source == FULL else None
                cells_.append(
                    Value(metric, None) if row is None else Value(metric, row.value, row.low, row.high, paper)
                )
            lines.append((f"{label(source)}, {users:,}" if source != FULL else label(source), *cells_))
    head = ("source, users", *(f"{noise:g} %" for noise in noises))
    return Table(
        f"EASE on {dataset}: {metric} by the share of items flipped before sampling.", head, tuple(lines)
    )


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
            alone = max(drop(clean, full), drop(noisy_full, full))
            worse.append(drop(both, full) > alone)
            parts.append(f"{label(source)} {users}: {drop(both, full):.1f} against {alone:.1f}")
    if not worse:
        return claim(text, dataset, None, "nothing measured yet.")
    figures = (
        f"{sum(worse)} of {len(worse)} samples lose more; drop in {metric} (%) with {noise:g} % noise and "
        "sampling, against the larger of either alone: "
    )
    return claim(text, dataset, all(worse), figures + "; ".join(parts) + ".")


def best_trade_off(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = (
        "Distill-CF has the best trade-off between noise, sampling and quality, and its lead grows with noise"
    )
    here = rows.where(metric=metric)
    gaps: dict[int, list[tuple[float, float]]] = {}
    for users in here.where(source=DISTILLED).every("users"):
        for noise in here.every("noise"):
            own = here.get(source=DISTILLED, users=users, noise=noise)
            rivals = here.where(source=lambda source: source in HEURISTICS, users=users, noise=noise)
            if own is not None and rivals:
                gaps.setdefault(users, []).append((noise, own.value - max(row.value for row in rivals)))
    if not any(len(found) > 1 for found in gaps.values()):
        return claim(text, dataset, None, "nothing measured yet.")
    best = all(gap > 0 for found in gaps.values() for _, gap in found)
    grows = all(found[-1][1] > found[0][1] for found in gaps.values())
    lines = "; ".join(
        f"{users} users: " + ", ".join(f"{signed(gap, 2)} at {noise:g} %" for noise, gap in found)
        for users, found in gaps.items()
    )
    return claim(text, dataset, best and grows, f"lead over the best sampler in {metric}: {lines}.")


def head_users(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "Head-user sampling gains on the other samplers with more noise and fewer users"
    here = rows.where(metric=metric)
    leads: dict[int, list[tuple[float, float]]] = {}
    for users in here.where(source="head-user").every("users"):
        for noise in here.every("noise"):
            own = here.get(source="head-user", users=users, noise=noise)
            rest = here.where(
                source=lambda source: source in HEURISTICS and source != "head-user", users=users, noise=noise
            )
            if own is not None and rest:
                mean = sum(row.value for row in rest) / len(rest)
                leads.setdefault(users, []).append((noise, 100 * (own.value - mean) / mean if mean else 0.0))
    if not any(len(found) > 1 for found in leads.values()):
        return claim(text, dataset, None, "nothing measured yet.")
    gains = {users: found[-1][1] - found[0][1] for users, found in leads.items()}
    fewer_is_better = len(gains) < 2 or leads[min(leads)][-1][1] > leads[max(leads)][-1][1]
    lines = "; ".join(
        f"{users} users: " + ", ".join(f"{signed(lead, 0)} % at {noise:g} %" for noise, lead in found)
        for users, found in leads.items()
    )
    return claim(
        text,
        dataset,
        min(gains.values()) > 0 and fewer_is_better,
        f"{metric} relative to the other samplers' mean: {lines}.",
    )


def findings(results: Results) -> Findings:
    rows, datasets = results.rows.where(model=MODEL), results.datasets()
    clean, noisy = rows.where(histories="clean"), rows.where(histories="noisy")
    claims = [
        check(dataset, clean.where(dataset=dataset))
        for dataset in datasets
        for check in (compounds, best_trade_off, head_users)
    ]
    tables = [table(dataset, clean) for dataset in datasets]
    if noisy:
        also = Rows([*noisy, *clean.where(noise=0.0)])
        for dataset in datasets:
            again = table(dataset, also)
            caption = (
                again.caption.removesuffix(".") + "; here the noise is in the test users' histories, too."
            )
            tables.append(Table(caption, again.head, again.rows))
    return Findings(claims, figures(clean, datasets) if clean else (), tables, notes())


def notes() -> list[str]:
    return [
        "The noise flips exactly that share of all items for every user of the train part, before "
        "sampling. Models and λ are judged with the users' own, noise-free histories and test items; the "
        "paper does not say whether its test histories carried the noise, so the second table has it in "
        "them (an item that noise puts into a history is then masked, and the propensities of PSP are "
        "those of the noisy log).",
    ]


EXPERIMENT = Experiment(
    name="noise-samplers",
    title="What does sampling noisy data cost?",
    source="Figure 3 and appendix",
    about="EASE on noisy train data, sampled or distilled to 100 and 500 users, and on all users.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban-book"),
)
