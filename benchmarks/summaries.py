"""Quality of models fitted on summaries, beside random users of the same bytes and the whole train part.

    python benchmarks/summaries.py [--data magazine …] [--modes weighted discrete] [--bytes SHARE] [--users N]
                                   [--models infinite-ae ease] [--seeds 42 …] [--out FILE]
                                   [--thin USERS ITEMS PER_USER] [--set KEY=VALUE …]

Every model chooses its settings on validation and is measured on the test part; nothing else sees the test
part. `--bytes` is the budget as a share of the train part's own interactions.parquet; without it and without
`--users` each summary has the size that `distill` gives it. `--thin` makes a sparser log of a dense one:
random users with 10 interactions or more, the most popular items, and random interactions of the rest, so
many that a user has PER_USER on average before the split. One JSON line for each figure, when it is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, Summary, datasets
from infrec.distillation import distill
from infrec.evaluation import fidelity
from infrec.randomness import generator
from infrec.samplers import sample
from infrec.splits import Split, holdout
from infrec.splits.holdout import held_out


def thinned(log: Interactions, users: int, items: int, per_user: int) -> Interactions:
    """A sparser log: of so many random users and most popular items, random interactions.

    Nobody with fewer than 10 interactions before, or 5 after, is in it.
    """
    rng, matrix = generator(42, "thinned"), log.matrix
    rows = rng.permutation(np.flatnonzero(np.diff(matrix.indptr) >= 10))[:users]
    matrix = matrix[np.sort(rows)]
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    matrix = sp.coo_array(matrix[:, np.sort(np.argsort(-counts, kind="stable")[:items])])
    kept = rng.random(matrix.nnz) < per_user * matrix.shape[0] / matrix.nnz
    places = matrix.row[kept], matrix.col[kept]
    sparser = sp.csr_array((np.ones(kept.sum(), np.float32), places), shape=matrix.shape)
    return Interactions.from_csr(sparser[np.flatnonzero(np.diff(sparser.indptr) >= 5)])


def load(name: str, thin: list[int] | None) -> Split:
    """A dataset by its name or path; validation items are cut from the train part where there are none."""
    log = datasets.load(name)
    split = holdout(log if thin is None else thinned(log, *thin), seed=42)
    if split.val.n_interactions:
        return split
    train, val = held_out(split.train, 42)
    return Split(train, val, split.test, name=split.name)


def random_users(train: Interactions, budget: int, seed: int) -> Interactions:
    """As many random users as fit into the bytes."""
    low, high = 1, train.n_users
    while high - low > 1:
        middle = (low + high) // 2
        if sample(train, users=middle, seed=seed).bytes <= budget:
            low = middle
        else:
            high = middle
    return sample(train, users=low, seed=seed)


def made(split: Split, options: argparse.Namespace) -> Iterator[tuple[str, Interactions, dict[str, Any]]]:
    """Summaries and random users, each with its name and how it was made."""
    whole = Summary.of(split.train).bytes
    budget = None if options.bytes is None else int(options.bytes * whole)
    changes = {key: json.loads(value) for key, value in (each.split("=", 1) for each in options.set)}
    for seed in options.seeds:
        for mode in options.modes:
            began = time.perf_counter()
            summary = distill(split, options.users, mode=mode, bytes=budget, seed=seed, **changes)
            facts = {name: summary.about[name] for name in ("steps", "best_step", "reg", "size_reason")}
            facts |= {
                "seconds": round(time.perf_counter() - began, 1),
                "share_of_bytes": summary.bytes / whole,
            }
            yield f"{mode}, seed {seed}", summary, facts
            chosen = random_users(split.train, summary.bytes, seed)
            yield f"random users beside {mode}, seed {seed}", chosen, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["magazine"])
    parser.add_argument("--modes", nargs="+", default=["weighted"])
    parser.add_argument("--bytes", type=float, help="share of the train part's bytes")
    parser.add_argument("--users", type=int)
    parser.add_argument("--models", nargs="+", default=["infinite-ae", "ease"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--thin", nargs=3, type=int, metavar=("USERS", "ITEMS", "PER_USER"))
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings, values as JSON")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    about = {"command": " ".join(["python", *sys.argv]), "device": jax.devices()[0].device_kind}

    def tell(line: dict[str, Any]) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")

    tell(about)
    for name in options.data:
        split = load(name, options.thin)
        logs: dict[Any, Interactions | None] = {"full": None}
        for what, log, facts in made(split, options):
            logs[what] = log
            size = {"users": log.n_users, "interactions": log.n_interactions, "bytes": Summary.of(log).bytes}
            tell({"dataset": name, "data": what, **size, **facts})
        for model in options.models:
            for one in fidelity.measure(split, logs, models=[model]):
                figures = {"metrics": one.metrics, "share": one.share, "selected": one.selected}
                tell({"dataset": name, "model": model, "data": one.data, **figures})


if __name__ == "__main__":
    main()
