"""Fits of generated logs: exact where the kernel is held once, Nyström in one pass, how the time grows, what
the quality is, distillation in mini-batches.

    python benchmarks/scale.py exact   [--users 100000 --items 20000 --interactions 20000000]
    python benchmarks/scale.py nystrom [--users 476000 --items 17000 --interactions 100000000 --centres 10000]
    python benchmarks/scale.py growth  [--users 50000 100000 200000 400000 --centres 2000]
    python benchmarks/scale.py quality distill [--users 476000 --items 17000 --interactions 100000000 …]

On an accelerator where there is one, else on the CPU; small sizes unless told. Several jobs share what they
have in common. The log is the generator's world: latent tastes and genres, long-tailed popularity and
activity (`infrec.data.synthetic`), so quality means something.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.data.synthetic import World, _blocks
from infrec.evaluation import evaluate
from infrec.kernels import devices, ridge
from infrec.kernels.nystrom import block_size
from infrec.models import InfiniteAE
from infrec.search import tune
from infrec.splits import Split, holdout

REG = 5.0
KEEP: list[Path] = []
METRICS = ("HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}; all unless told")
    parser.add_argument("--users", type=int, nargs="*", help="how many users")
    parser.add_argument("--items", type=int, default=2000, help="how many items")
    parser.add_argument("--interactions", type=int, help="how many interactions (default: 100 per user)")
    parser.add_argument("--tastes", type=int, help="of the generated world (at most 240 unless told)")
    parser.add_argument("--centres", type=int, default=500, help="how many centres")
    parser.add_argument("--sample", type=int, default=20_000, help="users whose test items are measured")
    parser.add_argument(
        "--exact-users", type=int, help="users of the exact fit that Nyström is compared with"
    )
    parser.add_argument(
        "--reg", type=float, nargs="*", default=[5, 20, 50, 100], help="λ that are tried where quality counts"
    )
    parser.add_argument("--distilled", type=int, default=500, help="synthetic users")
    parser.add_argument("--batch", type=int, default=4096, help="users of a mini-batch of the distillation")
    parser.add_argument("--targets", choices=("others", "own"), help="of the distillation (others)")
    parser.add_argument("--per-user", type=float, help="interactions of a synthetic user, on average")
    parser.add_argument("--steps", type=int, help="of the distillation")
    parser.add_argument("--keep", help="a folder for the log and for what Nyström found, for the next call")
    parser.add_argument("--plot", help="an SVG file for the growth")
    arguments = parser.parse_args()
    if arguments.keep:
        KEEP.append(Path(arguments.keep))
        KEEP[0].mkdir(parents=True, exist_ok=True)
    unknown = [name for name in arguments.jobs if name not in JOBS]
    if unknown:
        parser.error(f"there is no job {unknown[0]!r}; there is {', '.join(JOBS)}")
    device = devices.device() or "cpu"
    for name in arguments.jobs or JOBS:
        begin = time.perf_counter()
        found = JOBS[name](arguments)
        whole = {"job": name, "device": device, **found, "job_seconds": time.perf_counter() - begin}
        print(json.dumps(whole, indent=2), flush=True)


def exact(arguments: argparse.Namespace) -> dict[str, Any]:
    """The stages of an exact solve, twice: the first λ compiles, the second does not."""
    log = made(arguments, 3000)
    x = log.matrix
    if devices.device() is None:
        seconds, _ = timed(lambda: InfiniteAE(reg=REG, solver="exact").fit(log))
        return {**shape(log), "fit": seconds}
    from infrec.kernels.ntk import NTK
    from infrec.kernels.ridge_gpu import TiledRidge

    built, held = timed(lambda: TiledRidge(x, NTK()))
    added = ridge.shift(held.diagonal, reg=REG, scale="mean_diagonal")
    rounds = []
    for _ in range(2):
        factor, _ = timed(lambda: held.factorise(added))
        solve, _ = timed(held.solve)
        rounds.append({"factor": factor, "solve": solve})
    needed, _, _ = devices.exact_fit_budget(log.n_users, log.n_items, "float32")
    return {**shape(log), "kernel": built, "rounds": rounds, "estimate": needed, **peak()}


def nystrom(arguments: argparse.Namespace) -> dict[str, Any]:
    """One λ, everything included: choosing centres, the pass, the solve."""
    log = made(arguments, 20_000)
    marks: list[float] = []
    begin = time.perf_counter()
    model = InfiniteAE(reg=REG, solver="nystrom", centres=arguments.centres)
    model.fit(log, progress=lambda *_, **__: marks.append(time.perf_counter() - begin))
    total = time.perf_counter() - begin
    block = block_size(arguments.centres)
    return {
        **shape(log),
        "centres": arguments.centres,
        "seconds": {"until the first block": marks[0], "pass": marks[-1] - marks[0], "total": total},
        "estimate": devices.nystrom_on_device(arguments.centres, log.n_items, block=block),
        **peak(),
    }


def growth(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a Nyström fit by the number of users: the least of two, to keep out what else runs."""
    rows = []
    for users in arguments.users or (5_000, 10_000, 20_000):
        log = generated(users, arguments.items, 100 * users)
        tries, processor = [], []
        for _ in range(2):
            model = InfiniteAE(reg=REG, solver="nystrom", centres=arguments.centres)
            before = time.process_time()
            tries.append(timed(partial(model.fit, log))[0])
            processor.append(time.process_time() - before)
        found = {"seconds": min(tries), "tries": tries, "processor": min(processor)}
        rows.append({**shape(log), **found, "load": os.getloadavg()[0]})
    if arguments.plot:
        plotted(rows, arguments.plot)
    return {"centres": arguments.centres, "rows": rows}


def plotted(rows: list[dict[str, Any]], path: str) -> None:
    """Seconds by users, beside the line through the origin that fits them best."""
    import matplotlib.pyplot as plt

    users, seconds = (np.array([row[key] for row in rows], float) for key in ("users", "seconds"))
    slope = (users * seconds).sum() / (users**2).sum()
    figure, axes = plt.subplots(figsize=(6, 3.4))
    edge = np.array([0, users.max()])
    axes.plot(edge / 1e3, slope * edge, color="0.7", label=f"{slope * 1e5:.1f} s for 100,000 users")
    axes.plot(users / 1e3, seconds, "o", color="#3355aa", label="measured")
    axes.set(xlabel="users (thousands)", ylabel="seconds of a Nyström fit", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def quality(arguments: argparse.Namespace) -> dict[str, Any]:
    """Nyström on all users beside exact on as many as the paper could take, both judged on the same users."""
    split = parted(arguments)
    few = min(arguments.exact_users or 25_000, split.train.n_users // 2)
    some = np.sort(np.random.default_rng(0).choice(split.train.n_users, few, replace=False))
    train, val = (part.select_users(some) for part in (split.train, split.val))
    seconds, fitted = timed(lambda: chosen(arguments, InfiniteAE(solver="exact"), train, val))
    rows = [{"model": "exact", "users": few, "seconds": seconds, **judged(arguments, fitted)}]
    del fitted
    rows.append(all_users(arguments))
    gain = rows[1]["metrics"]["HR@10"] / rows[0]["metrics"]["HR@10"] - 1
    return {**shape(split.train), "rows": rows, "gain in HR@10": f"{gain:+.1%}", **peak()}


def distill(arguments: argparse.Namespace) -> dict[str, Any]:
    """A summary in mini-batches; the model on it beside Nyström on all users."""
    from infrec.distillation import distill

    split = parted(arguments)
    asked = {"steps": arguments.steps, "per_user": arguments.per_user, "batch": arguments.batch}
    asked["targets"] = arguments.targets
    given = {name: value for name, value in asked.items() if value is not None}
    begin = time.perf_counter()

    def told(stage: str, done: float, total: float | None = None, **facts: Any) -> None:
        if done % 100 == 0:
            note(f"{stage}, {done:.0f} of {total}, validation {facts.get('validation', 0.0):.2f}", begin)

    seconds, summary = timed(lambda: distill(split, users=arguments.distilled, progress=told, **given))
    note(f"{summary.n_users} synthetic users: {summary.about['validation']}", begin)
    row = {"users": summary.n_users, "interactions": summary.n_interactions, "seconds": seconds}
    row |= {name: summary.about[name] for name in ("steps", "best_step", "ms_per_step", "validation")}
    row |= judged(arguments, InfiniteAE().fit(summary))
    beside = all_users(arguments)
    # The same synthetic users as centres, α solved on all real users: one pass more.
    reg = beside["selected"]["reg"]
    finishing, whole = timed(lambda: InfiniteAE(reg=reg, centres=summary).fit(split.train))
    finished = {"seconds": finishing, **judged(arguments, whole)}
    full = beside["metrics"]["HR@10"]
    both = {"summary": row, "finished": finished}
    share = {name: f"{one['metrics']['HR@10'] / full:.1%}" for name, one in both.items()}
    return {**shape(split.train), **both, "beside": beside, "share of HR@10": share, **peak()}


JOBS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    job.__name__: job for job in (exact, nystrom, growth, quality, distill)
}


# ---- data --------------------------------------------------------------------------------------------------
def made(arguments: argparse.Namespace, users: int) -> Interactions:
    users = arguments.users[0] if arguments.users else users
    return generated(users, arguments.items, arguments.interactions or 100 * users, arguments.tastes)


@cache
def generated(users: int, items: int, interactions: int, tastes: int | None = None) -> Interactions:
    """The generator's interactions as a matrix, on all cores: no ids, titles or times."""
    begin = time.perf_counter()
    world = World(users, items, interactions, seed=1, tastes=tastes)
    indptr = np.concatenate([[0], np.cumsum(world.activity)]).astype(np.int32)
    kept = [folder / f"{users}-{items}-{interactions}-{world.tastes}.npy" for folder in KEEP]
    if kept and kept[0].is_file():
        indices = np.load(kept[0])
    else:
        indices = np.empty(interactions, np.int32)
        at = 0
        for block in _blocks(world, len(os.sched_getaffinity(0))):
            indices[at : at + block.num_rows] = block.column("item").to_numpy() - 1
            at += block.num_rows
    matrix = sp.csr_array((np.ones(interactions, np.float32), indices, indptr), shape=(users, items))
    matrix.sort_indices()
    for place in kept:
        np.save(place, matrix.indices)
    note(f"{interactions:,} interactions", begin)
    return Interactions(matrix, Vocabulary.numbered(users), Vocabulary.numbered(items))


@cache
def _parted(users: int, items: int, interactions: int, tastes: int | None) -> Split:
    log = generated(users, items, interactions, tastes)
    begin = time.perf_counter()
    split = holdout(log)
    note("held out a tenth for validation and a tenth for test", begin)
    return split


def parted(arguments: argparse.Namespace) -> Split:
    users = arguments.users[0] if arguments.users else 8_000
    return _parted(users, arguments.items, arguments.interactions or 100 * users, arguments.tastes)


# ---- models ------------------------------------------------------------------------------------------------
def chosen(arguments: argparse.Namespace, model: InfiniteAE, train: Interactions, val: Interactions) -> Any:
    begin = time.perf_counter()
    found = tune(model, (train, val), space={"reg": arguments.reg}).model
    note(f"{model.settings.solver}, {len(arguments.reg)} λ,", begin)
    return found


def judged(arguments: argparse.Namespace, model: Any) -> dict[str, Any]:
    """Metrics on a random sample of all users, the same for every model, with their intervals."""
    begin = time.perf_counter()
    seconds, found = timed(lambda: evaluate(model, parted(arguments), sample_users=arguments.sample))
    metrics = {name: round(found.metrics[name], 3) for name in METRICS}
    note(f"{model.name} on {arguments.sample:,} users: {metrics}", begin)
    return {
        "selected": {name: value for name, value in model.selected.items() if name in ("reg", "centres")},
        "metrics": metrics,
        "intervals": {name: found.intervals[name] for name in METRICS[:2]},
        "evaluate_seconds": seconds,
    }


_kept: dict[str, Any] = {}


def all_users(arguments: argparse.Namespace) -> dict[str, Any]:
    """Nyström on everybody, fitted once for all jobs of a call, or by an earlier one with the same sizes."""
    names = ("users", "items", "interactions", "tastes", "centres", "sample", "reg")
    asked = [getattr(arguments, name) for name in names]
    known = [folder / "nystrom.json" for folder in KEEP]
    if known and known[0].is_file() and (found := json.loads(known[0].read_text()))["asked"] == asked:
        _kept.update(found["row"])
    if not _kept:
        split = parted(arguments)
        model = InfiniteAE(solver="nystrom", centres=arguments.centres)
        seconds, fitted = timed(lambda: chosen(arguments, model, split.train, split.val))
        _kept.update({"model": "nystrom", "users": split.train.n_users, "seconds": seconds})
        _kept.update(judged(arguments, fitted))
        for place in known:
            place.write_text(json.dumps({"asked": asked, "row": _kept}))
    return _kept


def shape(log: Interactions) -> dict[str, int]:
    return {"users": log.n_users, "items": log.n_items, "interactions": log.n_interactions}


def peak() -> dict[str, int]:
    """The most memory that JAX held on the accelerator."""
    if devices.device() is None:
        return {}
    import jax

    return {"peak": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    answer = call()
    return time.perf_counter() - begin, answer


def note(text: str, begin: float) -> None:
    print(f"{text} in {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
