"""Our baselines and ∞-AE beside the same models of implicit, cornac and lenskit: one run, one machine.

    python benchmarks/baselines.py [--data demo] [--peers PYTHON] [--json FILE] [--only NAME …]

Every model is fitted on the train part, its settings are chosen on validation HR@100 among a few candidates
(ours: as `infrec evaluate` does without --search), and all are measured alike: test part, `paper-code`
protocol. The peers run in an environment of their own (`make bench-peers` builds it) and hand back lists of
items; without that environment, ours are shown alone.
Seconds: `choose` of all candidates, `fit` of one training with the chosen settings (of mf and mvae, whose
settings are the shipped ones, both are the same training, compilation included), `rank` of the 100 best items
of all users.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from infrec import Split, holdout, metrics, models
from infrec.data import datasets
from infrec.data.export import export
from infrec.machine import cores
from infrec.metrics import inverse_propensity, ranking_metrics, top_k
from infrec.search import tune

ROOT = Path(__file__).parent.parent
# Ours, and whom it must equal.
PAIRS = [
    ("mf", "implicit BPR"),
    ("mvae", "cornac VAECF"),
    ("ease", "cornac EASE"),
    ("infinite-ae", "implicit ALS"),
    ("infinite-ae", "lenskit ALS"),
    ("infinite-ae-plus", "implicit ALS"),
    ("infinite-ae-plus", "lenskit ALS"),
]
METRICS = ("HR@10", "HR@100", "NDCG@10", "NDCG@100")
BATCH = 1024  # users ranked at a time


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="demo", help="a dataset's name or file")
    parser.add_argument("--peers", default=str(ROOT / ".venv-peers/bin/python"), help="the peers' Python")
    parser.add_argument("--out", type=Path, default=ROOT / "build/baselines", help="what the peers read")
    parser.add_argument("--only", nargs="*", help="only the pairs of these models of ours")
    parser.add_argument("--json", type=Path, help="write the record there")
    given = parser.parse_args()

    pairs = [(our, peer) for our, peer in PAIRS if not given.only or our in given.only]
    split = holdout(datasets.load(given.data))
    before = os.getloadavg()[0]
    rows = [ours(name, split) for name in dict.fromkeys(our for our, _ in pairs)]
    rows += theirs(given.peers, given.out, split, list(dict.fromkeys(peer for _, peer in pairs)))
    record = {
        "data": given.data,
        "machine": f"{platform.machine()}, {cores()} cores",
        "load": [before, os.getloadavg()[0]],
        "rows": rows,
    }
    print(table(record, pairs))
    if given.json:
        given.json.write_text(json.dumps(record, indent=1) + "\n")


def ours(name: str, split: Split) -> dict[str, Any]:
    """One of our models: settings chosen, fitted once more with them, all users ranked."""
    start = time.perf_counter()
    found = tune(models.create(name), split)
    chosen = fit = time.perf_counter() - start
    model = found.model
    if len(found.candidates) > 1:  # else what was timed is one training already
        start = time.perf_counter()
        model = models.create(name, **found.selected).fit(split.train, validation=split.val)
        fit = time.perf_counter() - start
    start = time.perf_counter()
    context, ids = split.test_context, split.train.users.ids
    lists = np.concatenate(
        [
            top_k(
                model.score(context[at : at + BATCH], users=ids[at : at + BATCH]),
                min(100, split.train.n_items),
                exclude=context[at : at + BATCH],
            )
            for at in range(0, context.shape[0], BATCH)
        ]
    )
    rank = time.perf_counter() - start
    return {
        "name": name,
        "settings": found.selected,
        "seconds": {"choose": chosen, "fit": fit, "rank": rank},
        "metrics": measure(lists, split),
    }


def theirs(python: str, out: Path, split: Split, names: list[str]) -> list[dict[str, Any]]:
    """The peers, in their own environment, on what infrec exports; measured here like ours."""
    if not Path(python).is_file():
        print(f"no peers: {python} is not there (make bench-peers builds it).", file=sys.stderr)
        return []
    out.mkdir(parents=True, exist_ok=True)
    export(split.train, out / "full.csv", "csv")
    export(split.train, out / "full.npz", "npz")
    export(split.val, out / "val.npz", "npz")
    export(split.train.with_matrix(split.test_context), out / "context.npz", "npz")
    script = ROOT / "benchmarks/peers/baselines.py"
    subprocess.run([python, str(script), str(out), "--only", *names], check=True, stdout=sys.stderr)
    rows = json.loads((out / "peers.json").read_text())
    for row in rows:
        with np.load(out / f"{row['name'].replace(' ', '-')}.npz") as file:
            row["metrics"] = measure(file["lists"], split)
    return rows


def measure(lists: np.ndarray, split: Split) -> dict[str, float]:
    """The protocol's means over all users, in percent."""
    weights = inverse_propensity(split.train.item_counts)
    k = tuple(length for length in (10, 100) if length <= lists.shape[1])
    values = ranking_metrics(lists, split.test.matrix, weights, k=k, protocol=metrics.PROTOCOLS[0])
    return {name: 100 * float(values[name].mean()) for name in METRICS if name in values}


def table(record: dict[str, Any], pairs: list[tuple[str, str]]) -> str:
    rows = {row["name"]: row for row in record["rows"]}
    shown = list(next(iter(rows.values()))["metrics"])
    before, after = record["load"]
    lines = [
        f"{record['data']} on {record['machine']}, load {before:.1f} before, {after:.1f} after",
        f"{'':<15}" + "".join(f"{name:>10}" for name in shown) + f"{'choose s':>10}{'fit s':>8}{'rank s':>8}",
    ]
    for row in rows.values():
        seconds = row["seconds"]
        lines.append(
            f"{row['name']:<15}"
            + "".join(f"{row['metrics'][name]:10.2f}" for name in shown)
            + f"{seconds['choose']:10.1f}{seconds['fit']:8.1f}{seconds['rank']:8.1f}"
        )
    for our, peer in pairs:
        if peer not in rows:
            continue
        one, other = rows[our], rows[peer]
        gains = [one["metrics"][name] - other["metrics"][name] for name in shown]
        ratio = one["seconds"]["fit"] / max(other["seconds"]["fit"], 1e-9)
        speed = f"{ratio:.1f} × slower" if ratio >= 1 else f"{1 / ratio:.1f} × faster"
        lines.append(
            f"{our} − {peer}: "
            + ", ".join(f"{name} {gain:+.2f}" for name, gain in zip(shown, gains, strict=True))
            + f"; one fit is {speed}"
            + ("" if min(gains) >= 0 else "  ← not everywhere at least its quality")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
