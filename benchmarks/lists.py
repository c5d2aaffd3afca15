"""Lists that are not all alike: what a wish adds to the time of one list, and of everybody's.

    python benchmarks/lists.py [--data ml-1m] [--repeats 200]

∞-AE (λ = 5) on the train part; scores are computed before. Lists by scores alone and under each wish are made
for one user after the other in turn, so that whatever else the machine does meets all of them alike.
Milliseconds are medians over users; `more` is the median of the differences, user by user.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from infrec import InfiniteAE, holdout
from infrec.data import datasets
from infrec.models.balance import Balance
from infrec.models.lists import best_items
from infrec.models.reranking import Reranker

WISHES: dict[str, tuple[Balance, Mapping[str, int]]] = {
    "diversity 0.3": (Balance(0.3), {}),
    "popularity -0.2": (Balance(0.0, -0.2), {}),
    "at most 30 of a genre": (Balance(), {"genre": 30}),
    "all three": (Balance(0.3, -0.2), {"genre": 30}),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="ml-1m", help="a dataset's name or file")
    parser.add_argument("--repeats", type=int, default=200, help="users whose lists are timed one by one")
    given = parser.parse_args()
    split = holdout(datasets.load(given.data))
    model = InfiniteAE(reg=5).fit(split.train)
    began = time.perf_counter()
    _ = model.traits.vectors
    print(f"likenesses of {model.log.n_items:,} items, once: {time.perf_counter() - began:.2f} s")
    rows = split.train.matrix[: given.repeats]
    scores = model.score(rows)
    print(f"{'wish':<24}{'k':>5}{'plain ms':>10}{'ms':>8}{'more':>8}")
    for name, (balance, caps) in WISHES.items():
        reranker = Reranker.of(model.traits, balance, caps)
        for k in (10, 100):
            times = np.array([one(scores, rows, at, k, reranker) for at in range(rows.shape[0])])
            plain, wished = np.median(times, axis=0)
            more = np.median(times[:, 1] - times[:, 0])
            print(f"{name:<24}{k:>5}{plain:>10.2f}{wished:>8.2f}{more:>8.2f}", flush=True)


def one(scores: Any, rows: Any, at: int, k: int, reranker: Reranker | None) -> list[float]:
    """Milliseconds of one user's list by scores alone, and under a wish."""
    seconds = []
    for wish in (None, reranker):
        began = time.perf_counter()
        best_items(scores[at : at + 1], rows[[at]], k, rows[[at]], None, wish)
        seconds.append(time.perf_counter() - began)
    return [1000 * one for one in seconds]


if __name__ == "__main__":
    main()
