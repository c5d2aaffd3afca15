"""Distil a log and export it, a sample of it and the whole of it, for other libraries to train on.

    python benchmarks/peers/prepare.py OUT [--data demo] [--users 50] [--summary DIR]

Writes OUT/{full,random,summary}.csv and .npz, to train on, and OUT/{val,context,test}.npz, to be asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from infrec import Summary, distill, holdout
from infrec.data import datasets
from infrec.data.export import export
from infrec.samplers import sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="demo")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--summary", help="a summary of that data that is there already")
    given = parser.parse_args()

    split = holdout(datasets.load(given.data))
    summary = Summary.load(given.summary) if given.summary else distill(split, users=given.users)
    random = sample(split.train, strategy="user-rns", users=summary.n_users, seed=42)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, log in (("full", split.train), ("random", random), ("summary", summary)):
        export(log, given.out / f"{name}.csv", "csv")
        export(log, given.out / f"{name}.npz", "npz")
    export(split.train.with_matrix(split.test_context), given.out / "context.npz", "npz")
    export(split.val, given.out / "val.npz", "npz")
    export(split.test, given.out / "test.npz", "npz")
    print(f"{given.data}: {split.train!r}, {summary!r}")


if __name__ == "__main__":
    main()
