"""What it costs to add data to a model, as shares of a fit from scratch with one λ on the same log.

    python benchmarks/update.py [--json] [--repeats 3] [--users 200000] [--only LOG]

ML-1M (or, without $INFREC_DATA, a generated log of its size): 100 new users of ∞-AE, the last 10,000
interactions by time of known users in ∞-AE and in EASE. Generated data for Nyström: the last 0.1 % of the
interactions; and `--only netflix-sample`, where 0.1 % of the interactions, drawn at random, stand for one
more day. A fit and an update are timed in turn, several times; the share is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from infrec.data import Interactions, datasets
from infrec.data.synthetic import generate
from infrec.machine import cores
from infrec.models import EASE, InfiniteAE
from infrec.models.base import Recommender
from infrec.splits.holdout import keep

NEW_USERS, NEW_INTERACTIONS, DAY = 100, 10_000, 0.001
LIMITS = {"new users": 0.15, "interactions": 0.30, "EASE": 0.40, "Nyström": 0.05}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--repeats", type=int, default=3, help="fits and updates of each line")
    parser.add_argument("--users", type=int, default=200_000, help="users of the generated log")
    parser.add_argument("--only", choices=("ml-1m", "generated", "netflix-sample"))
    arguments = parser.parse_args()
    lines, name = [], ""
    if arguments.only in (None, "ml-1m"):
        log, name = ml_1m()
        known = np.sort(np.random.default_rng(0).permutation(log.n_users)[NEW_USERS:])
        new = np.setdiff1d(np.arange(log.n_users), known)
        grown = log.select_users(known), log.select_users(new)
        lines.append(measured("new users", InfiniteAE(reg=5.0), *grown, arguments.repeats))
        parts = split_off(log, NEW_INTERACTIONS)
        lines.append(measured("interactions", InfiniteAE(reg=5.0), *parts, arguments.repeats))
        lines.append(measured("EASE", EASE(reg=200.0), *parts, arguments.repeats))
    if arguments.only == "netflix-sample":
        log = datasets.load("netflix-sample")
        log = log.with_matrix(log.matrix, time=np.random.default_rng(0).permutation(log.n_interactions))
        nystrom = InfiniteAE(reg=5.0, solver="nystrom")
        parts = split_off(log, int(DAY * log.n_interactions))
        lines.append(measured("Nyström", nystrom, *parts, arguments.repeats))
    if arguments.only in (None, "generated"):
        users = arguments.users
        log = generate(users=users, items=5_000, interactions=200 * users, seed=42)
        nystrom = InfiniteAE(reg=5.0, solver="nystrom", centres=1_000)
        parts = split_off(log, int(DAY * log.n_interactions))
        lines.append(measured("Nyström", nystrom, *parts, arguments.repeats))
    result = {"data": name, "machine": f"{platform.machine()}, {cores()} cores", "lines": lines}
    print(json.dumps(result, indent=2) if arguments.json else table(result))


def ml_1m() -> tuple[Interactions, str]:
    """The log with times, or one of its size."""
    folder = os.environ.get("INFREC_DATA")
    if folder and (path := Path(folder) / "ml-1m-times.parquet").is_file():
        return Interactions.read(path), "ml-1m"
    return generate(users=6040, items=3706, interactions=1_000_000, seed=42), "generated, 6,040 × 3,706"


def split_off(log: Interactions, count: int) -> tuple[Interactions, Interactions]:
    """The log without its last interactions, and these: of users and items that have others."""
    time = np.arange(log.n_interactions) if log.time is None else log.time
    wanted = np.zeros(log.n_interactions, bool)
    wanted[np.argsort(time, kind="stable")[-count:]] = True
    past = keep(log, ~wanted)
    row = np.repeat(np.arange(log.n_users), log.user_counts)
    wanted &= (past.user_counts[row] > 0) & (past.item_counts[log.matrix.indices] > 0)
    last = keep(log, wanted)
    users = np.flatnonzero(last.user_counts)
    return keep(log, ~wanted), last.select_users(users)


def measured(
    name: str, model: Recommender, past: Interactions, more: Interactions, repeats: int
) -> dict[str, Any]:
    """Seconds of a fit on everything, and of an update of a model that knows the past."""
    base = model.with_settings().fit(past)
    whole = base.with_fit(base.fitted).update(more)
    everything, fits, updates = whole.log, [], []
    fresh = base
    for _ in range(repeats):
        seconds, fresh = timed(lambda: fresh_fit(model, base, everything))
        fits.append(seconds)
        seconds, whole = timed(lambda: base.with_fit(base.fitted).update(more))
        updates.append(seconds)
    equal = fresh.with_settings(reg=whole.settings.reg).fit(everything)
    rows = everything.matrix[np.linspace(0, everything.n_users - 1, 200).astype(int)]
    difference = float(np.abs(whole.score(rows) - equal.score(rows)).max())
    fit, update = statistics.median(fits), statistics.median(updates)
    return {
        "name": name,
        "interactions": more.n_interactions,
        "users": more.n_users,
        "fit": fit,
        "update": update,
        "share": update / fit,
        "limit": LIMITS[name],
        "reg": whole.settings.reg,
        "difference": difference,
        "all": {"fit": fits, "update": updates},
    }


def fresh_fit(model: Recommender, base: Recommender, log: Interactions) -> Recommender:
    """A fit from scratch; of Nyström with the centres of the other one, so that both can be compared."""
    if isinstance(base, InfiniteAE) and base.settings.solver == "nystrom":
        return model.with_settings(centres=base.centres).fit(log)
    return model.with_settings().fit(log)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['data']}; {result['machine']}",
        "",
        "| added | users | interactions | fit (s) | update (s) | share | at most | largest difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in result["lines"]:
        lines.append(
            f"| {line['name']} | {line['users']:,} | {line['interactions']:,} | {line['fit']:.2f} "
            f"| {line['update']:.3f} | {100 * line['share']:.1f} % | {100 * line['limit']:.0f} % "
            f"| {line['difference']:.1e} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
