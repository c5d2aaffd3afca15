"""Every metric from a matrix of scores, at the shape of ML-1M: 6,040 users × 3,706 items, k = 10 and 100.

    python benchmarks/metrics.py [--repeat 5] [--json]

Each time is the best of `repeat` runs in this process, beside two yardsticks measured in the same process: a
straightforward version (mask a copy, stable argsort of whole rows, metrics from dense 0/1 arrays), and the
floor given by memory: reading the score matrix once at the bandwidth of a copy. Ratios are what to compare
between machines. Scores are made up: popularity plus taste, so that lists differ and overlap as real ones do.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from infrec import metrics
from infrec.evaluation import bootstrap

USERS, ITEMS, K = 6040, 3706, (10, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times every metric at the shape of ML-1M.")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = measure(options.repeat)
    if options.json:
        print(json.dumps(seconds))
        return
    print(f"{USERS:,} users × {ITEMS:,} items, k = {K}, {os.cpu_count()} cores, best of {options.repeat}\n")
    whole = seconds["all ranking metrics"]
    for name, value in seconds.items():
        print(f"{name:<44}{1000 * value:9.1f} ms{value / whole:9.2f} × all ranking metrics")
    print(f"\nagainst the straightforward version: {seconds['straightforward version'] / whole:.1f} × faster")
    print(
        f"against the memory floor:            {whole / seconds['floor: the scores read once']:.1f} × slower"
    )


def measure(repeat: int) -> dict[str, float]:
    """Stage → seconds."""
    scores, context, held_out, counts, negatives = made_up()
    weights = metrics.inverse_propensity(counts)
    top = metrics.top_k(scores, max(K), exclude=context)

    def from_scores() -> dict[str, np.ndarray]:
        lists = metrics.top_k(scores, max(K), exclude=context)
        return metrics.ranking_metrics(lists, held_out, weights, k=K)

    expected = straightforward(scores, context, held_out, weights)
    for name, values in from_scores().items():  # a fast wrong answer is worth nothing
        np.testing.assert_allclose(values, expected[name], atol=1e-12)
    row, user = np.repeat(np.arange(USERS), np.diff(held_out.indptr)), np.repeat(np.arange(USERS), 50)
    stages: dict[str, Callable[[], object]] = {
        "all ranking metrics": from_scores,
        "  of which top_k": lambda: metrics.top_k(scores, max(K), exclude=context),
        "  of which from the lists": lambda: metrics.ranking_metrics(top, held_out, weights, k=K),
        "straightforward version": lambda: straightforward(scores, context, held_out, weights),
        "floor: the scores read once": scores.copy,
        "hit_rate_at (k = 100)": lambda: metrics.hit_rate_at(scores, context, held_out, 100),
        "pooled AUC with contributions": lambda: metrics.pooled_auc_by_user(
            scores[row, held_out.indices], row, scores[user, negatives.ravel()], user, USERS
        ),
        "AUC of each user": lambda: metrics.user_auc(scores, held_out, context),
        "coverage, novelty, popularity, gini": lambda: [
            (
                metrics.gini(exposed := metrics.exposure(top[:, :k], ITEMS)),
                metrics.coverage(exposed),
                metrics.novelty(top[:, :k], counts, USERS),
                metrics.popularity(top[:, :k], counts),
            )
            for k in K
        ],
        "bootstrap, 1,000 resamples of 11 metrics": lambda: bootstrap(weights[top[:, :11] % ITEMS]),
    }
    seconds = {name: best_of(repeat, stage) for name, stage in stages.items()}
    seconds["floor: the scores read once"] /= 2  # a copy reads and writes
    return seconds


def best_of(repeat: int, work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def made_up() -> tuple[np.ndarray, sp.csr_array, sp.csr_array, np.ndarray, np.ndarray]:
    """Scores, context, held-out items, train counts, negatives."""
    rng = np.random.default_rng(0)
    popularity = 1.0 / np.arange(1, ITEMS + 1) ** 0.7
    rng.shuffle(popularity)
    chance = np.minimum(0.95, popularity * rng.gamma(1.0, size=(USERS, 1)) * 4.9)
    seen = rng.random((USERS, ITEMS)) < chance
    test = seen & (rng.random(seen.shape) < 0.11)
    scores = (np.log(popularity) + 0.8 * rng.standard_normal(seen.shape)).astype(np.float32)
    context = sp.csr_array(seen & ~test)
    negatives = rng.integers(0, ITEMS, (USERS, 50))
    return scores, context, sp.csr_array(test), np.bincount(context.indices, minlength=ITEMS), negatives


def straightforward(
    scores: np.ndarray, context: sp.csr_array, held_out: sp.csr_array, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """The published definitions with whole-row sorts and dense arrays, as one would write them first."""
    masked = scores.copy()
    masked[context.nonzero()] = -np.inf
    ranked = np.argsort(-masked, axis=1, kind="stable")
    wanted = held_out.toarray() > 0
    held = wanted.sum(axis=1)
    dearest = -np.sort(-np.where(wanted, weights, 0.0), axis=1)
    out = {}
    for k in K:
        top = ranked[:, :k]
        hit = np.take_along_axis(wanted, top, axis=1)
        m = np.minimum(held, k)
        discount = 1 / np.log2(np.arange(k) + 2)
        ideal = np.where(np.arange(k) < m[:, None], discount, 0).sum(axis=1)
        best = np.where(np.arange(k) < m[:, None], dearest[:, :k], 0).sum(axis=1)
        some = np.maximum(m, 1)
        out[f"HR@{k}"] = hit.sum(axis=1) / some
        out[f"NDCG@{k}"] = (hit * discount).sum(axis=1) / np.where(m > 0, ideal, 1)
        out[f"PSP@{k}"] = (hit * weights[top]).sum(axis=1) / some / np.where(m > 0, best, 1)
    return out


if __name__ == "__main__":
    main()
