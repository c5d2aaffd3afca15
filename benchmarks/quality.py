"""∞-AE-plus beside plain ∞-AE and a finely tuned EASE: test figures with intervals, and paired differences.

    python benchmarks/quality.py [DATA …] [--seeds 3] [--ablation] [--stability] [--json]
    python benchmarks/quality.py --left-out benchmarks/results/quality-2026-11-16.json

Everything is chosen on validation. EASE tries 41 values of λ from 1 to 10,000 and is chosen once by HR@100
and once by NDCG@100; ∞-AE-plus has to beat both. --ablation takes one part of ∞-AE-plus away at a time and
chooses the others anew; --stability repeats its search with other hidden parts, beside believing one number.
--left-out reads the ablations of several datasets: each is measured with the parts that helped on the others.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from infrec.data import datasets
from infrec.evaluation import Evaluation, compare, evaluate
from infrec.machine import cores
from infrec.metrics.ranking import hits, top_k, truncated_ndcg
from infrec.models import EASE, InfiniteAE, InfiniteAEPlus
from infrec.models.infinite_ae_plus import LADDERS
from infrec.search.ladder import Climb
from infrec.splits import Split, holdout

SHOWN = ("HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10", "AUC")
FINE = tuple(float(f"{reg:.4g}") for reg in np.geomspace(1, 10_000, 41))
WITHOUT: dict[str, dict[str, Any]] = {
    "all of it": {},
    "without the item side": {"item_weight": 0.0},
    "without weights by user": {"user_power": 0.0, "target_power": 0.0},
    "without weights by item": {"item_power": 0.0},
    "without weighted targets": {"target_power": 0.0},
    "without popularity in the score": {"popularity_power": 0.0},
    "without the low-pass": {"low_pass_weight": 0.0},
}
# Plain ∞-AE beside a light item side: a start that knows nothing of what is good on most data.
PLAIN_START = {
    **LADDERS.start,
    "user_power": 0.0,
    "item_power": 0.0,
    "target_power": 0.0,
    "popularity_power": 0.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["demo"], help="datasets (default: demo)")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of what ∞-AE-plus hides from itself")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--stability", action="store_true")
    parser.add_argument("--left-out", metavar="FILE", help="a document of --json with all its ablations")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    if arguments.left_out:
        data = json.loads(Path(arguments.left_out).read_text(encoding="utf-8"))["data"]
        print(json.dumps(left_out(data), indent=1, ensure_ascii=False))
        return
    machine = (
        f"{platform.processor() or platform.machine()}, {cores()} cores, Python {platform.python_version()}"
    )
    document: dict[str, Any] = {"machine": machine, "data": {}}
    for name in arguments.data:
        split = holdout(datasets.load(name))
        result: dict[str, Any] = {"models": side_by_side(split, arguments.seeds)}
        if arguments.ablation:
            result["ablation"] = ablation(split)
        if arguments.stability:
            result["stability"] = stability(split, max(5, arguments.seeds))
        document["data"][name] = result
        if not arguments.json:
            show(name, result)
    if arguments.json:
        print(json.dumps(document, indent=1))


def side_by_side(split: Split, seeds: int) -> dict[str, Any]:
    """Test figures of all, and what ∞-AE-plus (first seed) gains over each, user by user."""
    plain, plain_seconds = timed(lambda: InfiniteAE().fit(split.train, validation=split.val))
    measured = {"infinite-ae": (plain.selected, plain_seconds, [evaluate(plain, split)])}
    del plain
    measured |= tuned_ease(split)
    plus = []
    for seed in range(seeds):
        model, seconds = timed(
            lambda seed=seed: InfiniteAEPlus(seed=42 + seed).fit(split.train, validation=split.val)
        )
        plus.append((model.selected, seconds, evaluate(model, split)))
    best = plus[0][2]
    out: dict[str, Any] = {}
    for name, (selected, seconds, (evaluation,)) in measured.items():
        gains = compare(best, evaluation)
        out[name] = figures(selected, seconds, [evaluation]) | {
            "plus_gains": {k: [g.value, g.low, g.high] for k, g in gains.items() if k in SHOWN}
        }
    out["infinite-ae-plus"] = figures(plus[0][0], plus[0][1], [each[2] for each in plus])
    out["infinite-ae-plus"]["selected_by_seed"] = [each[0] for each in plus]
    return out


def tuned_ease(split: Split) -> dict[str, Any]:
    """EASE over the fine grid, chosen once by validation HR@100 and once by NDCG@100."""
    held, seen = split.val.matrix, split.train.matrix
    rows = np.flatnonzero(np.diff(held.indptr))
    best: dict[str, Any] = {"HR@100": (-1.0,), "NDCG@100": (-1.0,)}
    begin = time.perf_counter()
    for settings, fitted in EASE().path(split.train, [{"reg": reg} for reg in FINE]):
        if not isinstance(fitted, EASE):
            continue
        found = hits(top_k(fitted.score(seen[rows]), 100, exclude=seen[rows]), held[rows])
        lengths = np.diff(held.indptr)[rows]
        scores = {
            "HR@100": (found.sum(1) / np.clip(lengths, 1, 100)).mean(),
            "NDCG@100": truncated_ndcg(found, lengths).mean(),
        }
        for criterion, score in scores.items():
            if score >= best[criterion][0]:
                best[criterion] = (score, settings, fitted)
    seconds = time.perf_counter() - begin
    return {
        f"ease, by {by}": (settings, seconds, [evaluate(model, split)])
        for by, (_, settings, model) in best.items()
    }


def ablation(split: Split) -> dict[str, Any]:
    """∞-AE-plus without one of its parts, the rest chosen anew."""
    out = {}
    for name, fixed in WITHOUT.items():
        model, seconds = timed(
            lambda fixed=fixed: InfiniteAEPlus(**fixed).fit(split.train, validation=split.val)
        )
        out[name] = figures(model.selected, seconds, [evaluate(model, split, intervals=False)])
    trials = InfiniteAEPlus()._trials(split.train, split.val, None)
    (chosen, _), seconds = timed(lambda: Climb(trials, replace(LADDERS, start=PLAIN_START), {}).run())
    model = InfiniteAEPlus(**chosen).fit(split.train)
    out["all of it, from a plain start"] = figures(
        model.selected, seconds, [evaluate(model, split, intervals=False)]
    )
    return out


def left_out(data: dict[str, Any]) -> dict[str, Any]:
    """∞-AE-plus on each dataset with only those parts that helped, on average, on all the others."""
    out = {}
    for name, own in data.items():
        gains = {}
        for part in list(WITHOUT)[1:]:
            changes = []
            for other, measured in data.items():
                if other != name:
                    whole, less = (measured["ablation"][each]["metrics"] for each in ("all of it", part))
                    changes += [whole[k] / less[k] - 1 for k in ("HR@100", "NDCG@100")]  # what it chooses by
            gains[part] = float(np.mean(changes))
        dropped = [part for part, gain in gains.items() if gain < 0]
        if len(dropped) < 2:
            found = own["ablation"][dropped[0] if dropped else "all of it"]
        else:
            split = holdout(datasets.load(name))
            fixed = {setting: value for part in dropped for setting, value in WITHOUT[part].items()}
            model, seconds = timed(
                lambda split=split, fixed=fixed: InfiniteAEPlus(**fixed).fit(
                    split.train, validation=split.val
                )
            )
            found = figures(model.selected, seconds, [evaluate(model, split, intervals=False)])
        out[name] = {"gains_elsewhere": gains, "dropped": dropped, **found}
    return out


def stability(split: Split, repeats: int) -> dict[str, Any]:
    """Test figures of repeated searches: as shipped, and with one hidden part whose numbers are believed."""
    out: dict[str, Any] = {}
    for name in ("as it is", "one hidden part, the best number wins"):
        runs = []
        for seed in range(repeats):
            model = InfiniteAEPlus(seed=100 + seed)
            trials = model._trials(split.train, None, None)
            search = (
                Climb(trials, LADDERS, {}) if name == "as it is" else Climb(trials[:1], LADDERS, {}, bar=0)
            )
            chosen, _ = search.run()
            fitted = InfiniteAEPlus(**chosen).fit(split.train)
            runs.append(evaluate(fitted, split, intervals=False))
        values = {k: [run.metrics[k] for run in runs] for k in SHOWN}
        out[name] = {
            k: [float(np.mean(v)), float(np.std(v, ddof=1)), float(np.min(v))] for k, v in values.items()
        }
    return out


def figures(selected: dict[str, Any], seconds: float, runs: list[Evaluation]) -> dict[str, Any]:
    return {
        "selected": selected,
        "seconds": round(seconds, 1),
        "metrics": {k: float(np.mean([run.metrics[k] for run in runs])) for k in SHOWN},
        "intervals": {k: list(v) for k, v in runs[0].intervals.items() if k in SHOWN},
    }


def timed(work: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def show(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}\n{'':38}" + "".join(f"{metric:>10}" for metric in SHOWN) + f"{'s':>8}")
    for part in ("models", "ablation"):
        for label, one in result.get(part, {}).items():
            row = "".join(f"{one['metrics'][metric]:10.3f}" for metric in SHOWN)
            print(f"{label:38}{row}{one['seconds']:8.1f}  {one['selected'].get('reg', '')}")
            if "plus_gains" in one:
                gains = "".join(
                    f"{one['plus_gains'][m][1]:+.2f}…{one['plus_gains'][m][2]:+.2f}  "
                    for m in one["plus_gains"]
                )
                print(f"{'   plus gains (95 %)':38}{gains}")
    for label, values in result.get("stability", {}).items():
        print(f"{label:38}" + "".join(f"{mean:7.2f}±{sd:.2f}" for mean, sd, _ in values.values()))


if __name__ == "__main__":
    main()
