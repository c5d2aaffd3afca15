"""implicit, cornac and lenskit trained on what `prepare.py` exported, measured on real users they never saw.

    python benchmarks/peers/train.py OUT

Runs without infrec: the files are all it gets. HR@k = hits / min(held out, k), what a user has is masked.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

Scorer = Callable[[sp.csr_array], np.ndarray]

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
ABSENT = -1e6  # the score of an item that the training file does not have
REGS = {"full": (200.0, 500.0, 1000.0), "random": (50.0, 200.0, 500.0), "summary": (50.0, 200.0, 500.0)}


def read(path: Path) -> tuple[sp.csr_array, np.ndarray]:
    """A users × items matrix and its item ids, from an exported .npz."""
    with np.load(path) as file:
        matrix = sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
        return matrix, file["items"]


def hit_rates(scores: np.ndarray, context: sp.csr_array, test: sp.csr_array) -> list[float]:
    scores = np.array(scores, dtype=np.float64)
    scores[context.nonzero()] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :100]
    hits = np.take_along_axis(test.toarray() > 0, order, axis=1)
    held = np.maximum(np.diff(test.indptr), 1)
    return [100 * float((hits[:, :k].sum(1) / np.minimum(held, k)).mean()) for k in (10, 100)]


def implicit_als(folder: Path, name: str, items: np.ndarray, reg: float) -> Scorer:
    from implicit.cpu.als import AlternatingLeastSquares

    train, _ = read(folder / f"{name}.npz")
    factors = int(min(64, train.shape[0] - 1))
    model = AlternatingLeastSquares(factors=factors, regularization=reg / 50, alpha=1.0, random_state=42)
    model.fit(sp.csr_matrix(train), show_progress=False)

    def score(context: sp.csr_array) -> np.ndarray:
        folded = model.recalculate_user(np.arange(context.shape[0]), sp.csr_matrix(context))
        return folded @ model.item_factors.T

    return score


def cornac_ease(folder: Path, name: str, items: np.ndarray, reg: float) -> Scorer:
    import cornac

    rows = pd.read_csv(folder / f"{name}.csv", dtype={"user": str, "item": str})
    triples = list(zip(rows["user"], rows["item"], rows["weight"].astype(float), strict=True))
    known = cornac.data.Dataset.from_uir(triples, seed=42)
    model = cornac.models.EASE(lamb=reg, posB=False, verbose=False).fit(known)
    ours = {str(item): at for at, item in enumerate(items.tolist())}
    place = np.array([ours[item] for item in known.item_ids])

    def score(context: sp.csr_array) -> np.ndarray:
        scores = np.full(context.shape, ABSENT)
        scores[:, place] = context[:, place] @ model.B
        return scores

    return score


def lenskit_ease(folder: Path, name: str, items: np.ndarray, reg: float) -> Scorer:
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.knn import EASEScorer

    rows = pd.read_csv(folder / f"{name}.csv").rename(columns={"user": "user_id", "item": "item_id"})
    model = EASEScorer(regularization=reg)
    model.train(from_interactions_df(rows[["user_id", "item_id"]]))
    known = np.isin(items, rows["item_id"])
    every = ItemList(item_ids=items[known].tolist())

    def score(context: sp.csr_array) -> np.ndarray:
        scores = np.full(context.shape, ABSENT)
        for user in range(context.shape[0]):  # lenskit answers one query at a time
            seen = context.indices[context.indptr[user] : context.indptr[user + 1]]
            history = ItemList(item_ids=items[seen[known[seen]]].tolist())
            found = model(RecQuery(history_items=history), every).scores()
            scores[user, known] = np.nan_to_num(found, nan=ABSENT)
        return scores

    return score


LIBRARIES = {"implicit ALS": implicit_als, "cornac EASE": cornac_ease, "lenskit EASE": lenskit_ease}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    train, items = read(out / "full.npz")
    (val, _), (context, _), (test, _) = (read(out / f"{name}.npz") for name in ("val", "context", "test"))
    print(f"{'library':<15}{'trained on':<12}{'HR@10':>8}{'HR@100':>8}{'reg':>8}{'seconds':>9}")
    for name in ("full", "summary", "random"):
        for library, fit in LIBRARIES.items():
            tried = []
            for reg in REGS[name]:
                start = time.perf_counter()
                scorer = fit(out, name, items, reg)
                seconds = time.perf_counter() - start
                tried.append((hit_rates(scorer(train), train, val)[1], -reg, seconds, scorer))
            _, reg, seconds, scorer = max(tried, key=lambda one: one[:2])
            ten, hundred = hit_rates(scorer(context), context, test)
            print(f"{library:<15}{name:<12}{ten:8.2f}{hundred:8.2f}{-reg:8.0f}{seconds:9.1f}", flush=True)
    print("reg: the best of three on validation HR@100; seconds: of one training.")


if __name__ == "__main__":
    main()
