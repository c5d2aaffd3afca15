"""What it costs to add data to a model, as shares of a fit from scratch on the same log.

    python benchmarks/update.py [--json] [--repeats 3] [--users 24000 48000] [--only LOG]

ML-1M (or, without $INFREC_DATA, a generated log of its size): 100 new users of ∞-AE, the last 10,000
interactions by time of known users in ∞-AE and in EASE. Nyström: one more day, 0.1 % of the interactions, of
netflix-sample and of generated logs with Netflix's items (17,770), interactions of a user (208) and 2,000
centres, but fewer users. Costs are straight lines in the number of users: the last line is where those
through the two sizes are at Netflix's 480,189. A day is five interactions each of users drawn in proportion
to their number of interactions: who has many is there on many days.

A fit and an update are timed in turn, several times, by the clock and by the CPU time of this process; the
share is that of the least CPU times, to which other work adds least. The fit has one λ, which is given. An
update of Nyström is a share of the default fit, too: `fit(log)` with nothing said about λ, which makes the
pass without a part of the log, judges each λ by it, and makes the pass again. At most 20,000 users judge, so
both sizes are above that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrec.data import Interactions, datasets
from infrec.data.synthetic import generate
from infrec.machine import cores
from infrec.models import EASE, InfiniteAE
from infrec.models.base import Recommender
from infrec.splits.holdout import keep

NEW_USERS, NEW_INTERACTIONS, DAY, BURST = 100, 10_000, 0.001, 5
NETFLIX_USERS, NETFLIX_ITEMS, NETFLIX_EACH = 480_189, 17_770, 208
LIMITS = {"new users": 0.15, "interactions": 0.30, "EASE": 0.40, "Nyström": 0.05}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--repeats", type=int, default=3, help="fits and updates of each line")
    parser.add_argument("--users", type=int, nargs=2, default=(24_000, 48_000), help="of the generated logs")
    parser.add_argument("--only", choices=("ml-1m", "netflix-sample", "netflix-shape"))
    arguments = parser.parse_args()
    lines, name, repeats = [], "", arguments.repeats
    if arguments.only in (None, "ml-1m"):
        log, name = ml_1m()
        known = np.sort(np.random.default_rng(0).permutation(log.n_users)[NEW_USERS:])
        new = np.setdiff1d(np.arange(log.n_users), known)
        grown = log.select_users(known), log.select_users(new)
        lines.append(measured("new users", InfiniteAE(reg=5.0), *grown, repeats))
        parts = split_off(log, last(log, NEW_INTERACTIONS))
        lines.append(measured("interactions", InfiniteAE(reg=5.0), *parts, repeats))
        lines.append(measured("EASE", EASE(reg=200.0), *parts, repeats))
    if arguments.only == "netflix-sample":
        lines.append(one_more_day(datasets.load("netflix-sample"), repeats))
    if arguments.only in (None, "netflix-shape"):
        shapes = [
            one_more_day(generate(users, NETFLIX_ITEMS, NETFLIX_EACH * users, 42), repeats)
            for users in arguments.users
        ]
        lines += [*shapes, at_netflix(*shapes)]
    result = {"data": name, "machine": f"{platform.machine()}, {cores()} cores", "lines": lines}
    print(json.dumps(result, indent=2) if arguments.json else table(result))


def ml_1m() -> tuple[Interactions, str]:
    """The log with times, or one of its size."""
    folder = os.environ.get("INFREC_DATA")
    if folder and (path := Path(folder) / "ml-1m-times.parquet").is_file():
        return Interactions.read(path), "ml-1m"
    return generate(users=6040, items=3706, interactions=1_000_000, seed=42), "generated, 6,040 × 3,706"


def last(log: Interactions, count: int) -> NDArray[np.bool_]:
    """Which interactions are the last ones by time."""
    time = np.arange(log.n_interactions) if log.time is None else log.time
    wanted = np.zeros(log.n_interactions, bool)
    wanted[np.argsort(time, kind="stable")[-count:]] = True
    return wanted


def of_a_day(log: Interactions) -> NDArray[np.bool_]:
    """Which interactions are those of a day: a burst of each of its users."""
    rng, counts = np.random.default_rng(0), log.user_counts
    visits = int(DAY * log.n_interactions) // BURST
    there = np.zeros(log.n_users, bool)
    there[rng.choice(log.n_users, visits, replace=False, p=counts / counts.sum())] = True
    row = np.repeat(np.arange(log.n_users), counts)
    order = np.lexsort((rng.random(len(row)), row))
    rank = np.empty(len(row), int)
    rank[order] = np.arange(len(row)) - np.repeat(log.matrix.indptr[:-1], counts)
    return there[row] & (rank < BURST)


def split_off(log: Interactions, wanted: NDArray[np.bool_]) -> tuple[Interactions, Interactions]:
    """The log without some interactions, and these: of users and items that have others."""
    past = keep(log, ~wanted)
    row = np.repeat(np.arange(log.n_users), log.user_counts)
    wanted = wanted & (past.user_counts[row] > 0) & (past.item_counts[log.matrix.indices] > 0)
    more = keep(log, wanted)
    return keep(log, ~wanted), more.select_users(np.flatnonzero(more.user_counts))


def one_more_day(log: Interactions, repeats: int) -> dict[str, Any]:
    """A day of Nyström, beside a fit with one λ and the default fit, which chooses λ."""
    parts = split_off(log, of_a_day(log))
    default = InfiniteAE(solver="nystrom")
    line = measured("Nyström", InfiniteAE(reg=5.0, solver="nystrom"), *parts, repeats, default=default)
    return line | {"all_users": log.n_users}


def at_netflix(small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    """Costs at Netflix's number of users, on the straight lines through two sizes."""
    sizes = small["all_users"], large["all_users"]

    def at(what: str) -> float:
        slope, start = np.polyfit(sizes, (small[what], large[what]), 1)
        return float(start + slope * NETFLIX_USERS)

    fit, update, default_fit = at("fit"), at("update"), at("default_fit")
    return {
        "name": "Nyström",
        "interactions": round(at("interactions")),
        "users": round(at("users")),
        "all_users": NETFLIX_USERS,
        "fit": fit,
        "update": update,
        "share": update / fit,
        "default_fit": default_fit,
        "default_share": update / default_fit,
        "limit": LIMITS["Nyström"],
    }


def measured(
    name: str,
    model: Recommender,
    past: Interactions,
    more: Interactions,
    repeats: int,
    default: Recommender | None = None,
) -> dict[str, Any]:
    """Seconds of a fit on everything, of an update of a model that knows the past, and of a default fit."""
    base = model.with_settings().fit(past)
    whole = base.with_fit(base.fitted).update(more)
    everything, fits, updates, default_fits = whole.log, [], [], []
    fresh = base
    for _ in range(repeats):
        clock, seconds, fresh = timed(lambda: fresh_fit(model, base, everything))
        fits.append((seconds, clock))
        clock, seconds, whole = timed(lambda: base.with_fit(base.fitted).update(more))
        updates.append((seconds, clock))
        if default is not None:
            clock, seconds, chosen = timed(lambda: default.with_settings().fit(everything))
            default_fits.append((seconds, clock))
    equal = fresh.with_settings(reg=whole.settings.reg).fit(everything)
    rows = everything.matrix[np.linspace(0, everything.n_users - 1, 200).astype(int)]
    difference = float(np.abs(whole.score(rows) - equal.score(rows)).max())
    fit, update = (min(seconds for seconds, _ in each) for each in (fits, updates))
    line = {
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
    if default is None:
        return line
    default_fit = min(seconds for seconds, _ in default_fits)
    line["all"]["default_fit"] = default_fits
    return line | {
        "default_fit": default_fit,
        "default_share": update / default_fit,
        "default_reg": chosen.settings.reg,
    }


def fresh_fit(model: Recommender, base: Recommender, log: Interactions) -> Recommender:
    """A fit from scratch; of Nyström with the centres of the other one, so that both can be compared."""
    if isinstance(base, InfiniteAE) and base.settings.solver == "nystrom":
        return model.with_settings(centres=base.centres).fit(log)
    return model.with_settings().fit(log)


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock, seconds of CPU, and the result."""
    begin, busy = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - begin, time.process_time() - busy, result


def table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['data']}; {result['machine']}",
        "",
        "| added | users | interactions | update (CPU s) | fit with one λ | share | default fit | share "
        "| at most | largest difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in result["lines"]:
        users = f" (of {line['all_users']:,})" if "all_users" in line else ""
        default = ["", ""]
        if "default_fit" in line:
            default = [f"{line['default_fit']:.2f}", f"{100 * line['default_share']:.1f} %"]
        cells = [
            line["name"],
            f"{line['users']:,}{users}",
            f"{line['interactions']:,}",
            f"{line['update']:.2f}",
            f"{line['fit']:.2f}",
            f"{100 * line['share']:.1f} %",
            *default,
            f"{100 * line['limit']:.0f} %",
            f"{line['difference']:.1e}" if "difference" in line else "extrapolated",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
