"""implicit, cornac and lenskit as well trained as a few candidates on validation make them.

    python benchmarks/peers/baselines.py OUT

Runs without infrec, on OUT/{full,val,context,test}.npz and OUT/full.csv of `benchmarks/baselines.py`, which
measures what is written here: OUT/peers.json (settings, seconds) and the 100 items per user in OUT/NAME.npz.
Seconds: `choose` of all candidates, `fit` of one training with the chosen settings, `rank` of all users.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from train import ABSENT, read

Scorer = Callable[[sp.csr_array, np.ndarray], np.ndarray]  # histories and the numbers of their users
Fit = Callable[[Path, sp.csr_array, np.ndarray, Mapping[str, Any]], Scorer]
BATCH = 1024  # users ranked at a time
SEED = 42


def ranked(score: Scorer, context: sp.csr_array, k: int = 100) -> np.ndarray:
    """The k best items of every user, what they have already left out."""
    lists = []
    for start in range(0, context.shape[0], BATCH):
        some = context[start : start + BATCH]
        scores = np.array(score(some, np.arange(start, start + some.shape[0])), dtype=np.float32)
        scores[some.nonzero()] = -np.inf
        k = min(k, scores.shape[1])
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        lists.append(np.take_along_axis(best, order, axis=1))
    return np.concatenate(lists).astype(np.int32)


def hit_rate(lists: np.ndarray, held_out: sp.csr_array) -> float:
    """Mean of hits / min(held out, 100), in percent, users without a held-out item counted as 0."""
    held = np.diff(held_out.indptr)
    hits = np.take_along_axis(held_out.toarray() > 0, lists, axis=1).sum(1)
    return 100 * float((hits / np.minimum(np.maximum(held, 1), lists.shape[1])).mean())


# Each is fitted on the train part and scores a batch of histories (train, or train and validation) of users
# that it knows by number.
def implicit_bpr(folder: Path, train: sp.csr_array, items: np.ndarray, given: Mapping[str, Any]) -> Scorer:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(random_state=SEED, **given)
    model.fit(sp.csr_matrix(train), show_progress=False)
    return lambda histories, users: model.user_factors[users] @ model.item_factors.T


def implicit_als(folder: Path, train: sp.csr_array, items: np.ndarray, given: Mapping[str, Any]) -> Scorer:
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(random_state=SEED, **given)
    model.fit(sp.csr_matrix(train), show_progress=False)

    def score(histories: sp.csr_array, users: np.ndarray) -> np.ndarray:
        folded = model.recalculate_user(np.arange(len(users)), sp.csr_matrix(histories))
        return folded @ model.item_factors.T

    return score


def cornac_data(folder: Path, items: np.ndarray) -> tuple[Any, np.ndarray]:
    """cornac's dataset, and where its items are among ours."""
    import cornac

    rows = pd.read_csv(folder / "full.csv", dtype={"user": str, "item": str})
    triples = list(zip(rows["user"], rows["item"], rows["weight"].astype(float), strict=True))
    known = cornac.data.Dataset.from_uir(triples, seed=SEED)
    ours = {str(item): at for at, item in enumerate(items.tolist())}
    return known, np.array([ours[item] for item in known.item_ids])


def cornac_ease(folder: Path, train: sp.csr_array, items: np.ndarray, given: Mapping[str, Any]) -> Scorer:
    import cornac

    known, place = cornac_data(folder, items)
    model = cornac.models.EASE(posB=False, verbose=False, **given).fit(known)

    def score(histories: sp.csr_array, users: np.ndarray) -> np.ndarray:
        scores = np.full(histories.shape, ABSENT)
        scores[:, place] = histories[:, place] @ model.B
        return scores

    return score


def cornac_vae(folder: Path, train: sp.csr_array, items: np.ndarray, given: Mapping[str, Any]) -> Scorer:
    import cornac
    import torch

    known, place = cornac_data(folder, items)
    model = cornac.models.VAECF(likelihood="mult", seed=SEED, **given).fit(known)

    def score(histories: sp.csr_array, users: np.ndarray) -> np.ndarray:
        scores = np.full(histories.shape, ABSENT)
        with torch.no_grad():
            mean, _ = model.vae.encode(torch.tensor(histories[:, place].toarray(), dtype=torch.float32))
            scores[:, place] = model.vae.decode(mean).numpy()
        return scores

    return score


def lenskit_als(folder: Path, train: sp.csr_array, items: np.ndarray, given: Mapping[str, Any]) -> Scorer:
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.training import TrainingOptions

    rows = pd.read_csv(folder / "full.csv").rename(columns={"user": "user_id", "item": "item_id"})
    model = ImplicitMFScorer(**given)
    model.train(from_interactions_df(rows[["user_id", "item_id"]]), TrainingOptions(rng=SEED))
    known = np.isin(items, rows["item_id"])
    every = ItemList(item_ids=items[known].tolist())

    def score(histories: sp.csr_array, users: np.ndarray) -> np.ndarray:
        scores = np.full(histories.shape, ABSENT)
        for user in range(histories.shape[0]):  # lenskit answers one query at a time
            seen = histories.indices[histories.indptr[user] : histories.indptr[user + 1]]
            history = ItemList(item_ids=items[seen[known[seen]]].tolist())
            found = model(RecQuery(history_items=history), every).scores()
            scores[user, known] = np.nan_to_num(found, nan=ABSENT)
        return scores

    return score


PEERS: dict[str, tuple[str, Fit, list[dict[str, Any]]]] = {
    "implicit BPR": (
        "implicit",
        implicit_bpr,
        [
            {"factors": factors, "learning_rate": rate, "regularization": reg, "iterations": iterations}
            for factors, rate, reg, iterations in (
                (64, 0.01, 0.01, 50),
                (64, 0.01, 0.01, 100),
                (64, 0.01, 0.03, 100),
            )
        ],
    ),
    "implicit ALS": (
        "implicit",
        implicit_als,
        [
            {"factors": factors, "regularization": reg, "alpha": alpha}
            for factors in (64, 128)
            for reg, alpha in ((20.0, 2.0), (50.0, 5.0), (100.0, 10.0))
        ],
    ),
    "cornac EASE": ("cornac", cornac_ease, [{"lamb": lamb} for lamb in (50.0, 100.0, 200.0, 500.0, 1000.0)]),
    "cornac VAECF": (
        "cornac",
        cornac_vae,
        [
            {"k": k, "autoencoder_structure": [hidden], "n_epochs": epochs, "beta": beta}
            for k, hidden, epochs, beta in ((64, 200, 30, 1.0), (64, 200, 60, 1.0), (64, 200, 60, 0.2))
        ],
    ),
    "lenskit ALS": (
        "lenskit",
        lenskit_als,
        [
            {"embedding_size": size, "regularization": reg, "weight": weight}
            for size, reg, weight in ((64, 0.1, 40.0), (64, 20.0, 2.0), (64, 50.0, 5.0))
        ],
    ),
}


def compare(folder: Path, name: str) -> dict[str, Any]:
    """One peer: its candidates on validation, the best one measured on test, its lists written."""
    library, fit, candidates = PEERS[name]
    (train, items), (val, _), (context, _) = (read(folder / f"{n}.npz") for n in ("full", "val", "context"))
    begin = time.perf_counter()
    tried = []
    for at, given in enumerate(candidates):
        start = time.perf_counter()
        scorer = fit(folder, train, items, given)
        seconds = time.perf_counter() - start
        tried.append((hit_rate(ranked(scorer, train), val), -at, seconds, scorer))
        print(f"  {name} {given}: validation HR@100 {tried[-1][0]:.2f}, {seconds:.1f} s", flush=True)
    score, at, seconds, scorer = max(tried, key=lambda one: one[:2])
    chosen = time.perf_counter() - begin
    start = time.perf_counter()
    lists = ranked(scorer, context)
    rank = time.perf_counter() - start
    np.savez(folder / f"{name.replace(' ', '-')}.npz", lists=lists)
    return {
        "name": name,
        "version": version(library),
        "settings": candidates[-at],
        "validation": score,
        "candidates": [{"settings": candidates[-a], "score": s, "seconds": t} for s, a, t, _ in tried],
        "seconds": {"choose": chosen, "fit": seconds, "rank": rank},
    }


def main() -> None:
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(PEERS), default=list(PEERS))
    given = parser.parse_args()
    found = []
    for name in given.only:
        # implicit has threads of its own and asks for one BLAS thread beside them.
        with threadpool_limits(1 if name.startswith("implicit") else None, "blas"):
            found.append(compare(given.out, name))
    (given.out / "peers.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
