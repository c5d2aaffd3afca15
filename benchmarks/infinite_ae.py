"""∞-AE's choice of λ on ML-1M, stage by stage, against what this machine's matrix product allows.

    python benchmarks/infinite_ae.py [--json] [--full]

The floor of a stage is its arithmetic at the rate of a float32 matrix product measured in the same run. A
stage that exploits sparsity may fall below the floor of its dense form. The straightforward version is the
closed form as one would first write it: dense, and everything again for each λ. One λ of it is timed and
multiplied (`--full`: all). Without $INFREC_DATA, a generated log of the same size stands in for ML-1M.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from infrec.data import Interactions
from infrec.kernels import gram, ridge
from infrec.kernels.ntk import NTK
from infrec.machine import cores
from infrec.metrics.ranking import hit_rate_at, top_k
from infrec.models import InfiniteAE
from infrec.search.criterion import Criterion
from infrec.splits import Split, holdout

LAMBDAS = InfiniteAE.search_space["reg"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--full", action="store_true", help="time the straightforward version for every λ")
    arguments = parser.parse_args()
    split, name = data()
    rate = product_rate()
    stages = time_stages(split, rate)
    whole, model = timed(lambda: InfiniteAE().fit(split.train, validation=split.val), repeats=1)
    tried = LAMBDAS if arguments.full else LAMBDAS[2:3]
    seconds = [timed(partial(straightforward, split, reg), repeats=1)[0] for reg in tried]
    plain = sum(seconds) * len(LAMBDAS) / len(tried)
    n, d = split.train.matrix.shape
    # One kernel, then a factor (and for λ > 0 its inverse) per λ; the rest is sparse: no dense arithmetic.
    floor = (n * n * d + n**3 / 3 + (len(LAMBDAS) - 1) * n**3) / rate
    result = {
        "data": name,
        "machine": f"{platform.machine()}, {cores()} cores",
        "matrix_product_gflops": rate / 1e9,
        "stages": stages,
        "fit": {"seconds": whole, "floor": floor, "ratio": whole / floor, "selected": model.selected["reg"]},
        "straightforward": {"seconds": plain, "timed": list(tried), "ratio": plain / whole},
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result, indent=2) if arguments.json else table(result))


def data() -> tuple[Split, str]:
    folder = os.environ.get("INFREC_DATA")
    if folder and (Path(folder) / "ml-1m.parquet").is_file():
        return holdout(Interactions.read(Path(folder) / "ml-1m.parquet")), "ml-1m"
    from infrec.data.synthetic import generate

    return holdout(generate(6040, 3706, 1_000_000, seed=42)), "generated, 6,040 × 3,706"


def product_rate(size: int = 4096) -> float:
    """Floating-point operations per second of a float32 matrix product, the best of five."""
    a = np.random.default_rng(0).random((size, size), dtype=np.float32)
    return 2 * size**3 / timed(lambda: a @ a, repeats=5)[0]


def time_stages(split: Split, rate: float) -> list[dict[str, Any]]:
    """Each stage by itself: seconds, the floor of its dense arithmetic, their ratio."""
    x, held_out, context = split.train.matrix, split.val.matrix, split.test_context
    n, d = x.shape
    k = gram.kernel_matrix(NTK(), x)
    work = np.empty_like(k)
    factor = ridge.factorise(k, reg=5, work=work)

    def solve() -> None:  # which may use the factor up
        ridge.Factor(factor.upper.copy(order="F"), factor.shift).solve(x)

    model = InfiniteAE(reg=5).fit(split.train)
    scores = model.score(context)
    work_of: list[tuple[str, float | None, Callable[[], Any]]] = [
        ("kernel of all users (once)", n * n * d, lambda: gram.kernel_matrix(NTK(), x)),
        ("factorise, per λ", n**3 / 3, lambda: ridge.factorise(k, reg=5, work=np.empty_like(k))),
        ("solve for all items, per λ", 2 * n * n * d, solve),
        ("rank for validation, per λ", None, lambda: Criterion(held_out)(model)),
        (
            "kernel at test",
            2 * n * n * d,
            lambda: [model.kernel(context[a : a + 1024]) for a in range(0, n, 1024)],
        ),
        ("scores at test", 4 * n * n * d, lambda: model.score(context)),
        ("top 100 at test", None, lambda: top_k(scores, 100, exclude=context)),
    ]
    rows = []
    for name, operations, call in work_of:
        seconds, _ = timed(call, repeats=2)
        floor = None if operations is None else operations / rate
        rows.append({"stage": name, "seconds": seconds, "floor": floor, "ratio": floor and seconds / floor})
    return rows


def straightforward(split: Split, reg: float) -> float:
    """The closed form as one would first write it, for one λ: everything dense, everything anew."""
    x = split.train.matrix.toarray()
    n, d = x.shape
    q = 2 * (x @ x.T) / d + np.float32(0.01)
    norms = np.sqrt(np.diag(q))
    c = np.clip(q / np.outer(norms, norms), -1, 1)
    angle = np.arccos(c)
    kappa1 = np.outer(norms, norms) * (np.sin(angle) + (np.pi - angle) * c) / np.float32(2 * math.pi)
    k = 2 * kappa1 + np.float32(0.01) + q * (np.pi - angle) / np.float32(math.pi)
    shifted = k + np.float32(reg * np.trace(k) / n) * np.eye(n, dtype=np.float32)
    alpha = scipy.linalg.cho_solve(scipy.linalg.cho_factor(shifted), x)
    return float(hit_rate_at(k @ alpha, split.train.matrix, split.val.matrix, 100).mean())


def timed(call: Callable[[], Any], *, repeats: int) -> tuple[float, Any]:
    best, answer = math.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = call()
        best = min(best, time.perf_counter() - start)
    return best, answer


def table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['data']} on {result['machine']}",
        f"matrix product in float32: {result['matrix_product_gflops']:.0f} GFLOP/s",
        f"{'stage':<32}{'seconds':>9}{'floor':>9}{'× floor':>9}",
    ]
    for row in result["stages"]:
        floor = "" if row["floor"] is None else f"{row['floor']:9.2f}{row['ratio']:9.2f}"
        lines.append(f"{row['stage']:<32}{row['seconds']:9.2f}{floor}")
    fit, plain = result["fit"], result["straightforward"]
    lines.append(
        f"{'choose one of 6 λ and fit':<32}{fit['seconds']:9.2f}{fit['floor']:9.2f}{fit['ratio']:9.2f}"
    )
    lines.append(
        f"{'the same, straightforwardly':<32}{plain['seconds']:9.2f}{'':>9}  {plain['ratio']:.1f} × ours"
    )
    lines.append(f"λ = {fit['selected']} chosen; peak memory {result['peak_rss_mb']:.0f} MB")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
