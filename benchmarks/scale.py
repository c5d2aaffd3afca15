"""Fits of generated logs: exact where the kernel is held once, Nyström in one pass, and how the time grows.

    python benchmarks/scale.py exact   [--users 100000 --items 20000 --interactions 20000000]
    python benchmarks/scale.py nystrom [--users 476000 --items 17000 --interactions 100000000 --centres 10000]
    python benchmarks/scale.py growth  [--users 50000 100000 200000 400000 --centres 2000]

On an accelerator where there is one, else on the CPU; small sizes unless told. Without a job, all of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from infrec.data import Interactions
from infrec.data.generate import generate
from infrec.kernels import accelerated, memory, ridge
from infrec.models import InfiniteAE

REG = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", nargs="?", choices=JOBS, help="one of them")
    parser.add_argument("--users", type=int, nargs="*", help="how many users")
    parser.add_argument("--items", type=int, default=2000, help="how many items")
    parser.add_argument("--interactions", type=int, help="how many interactions (default: 100 per user)")
    parser.add_argument("--centres", type=int, default=500, help="how many centres")
    arguments = parser.parse_args()
    device = accelerated.device() or "cpu"
    for name in [arguments.job] if arguments.job else JOBS:
        print(json.dumps({"job": name, "device": device} | JOBS[name](arguments), indent=2))


def exact(arguments: argparse.Namespace) -> dict[str, Any]:
    """The stages of an exact solve, twice: the first λ compiles, the second does not."""
    log = made(arguments, 3000)
    x = log.matrix
    if accelerated.device() is None:
        seconds, _ = timed(lambda: InfiniteAE(reg=REG, solver="exact").fit(log))
        return {**shape(log), "fit": seconds}
    from infrec.kernels.blocked import BlockedRidge

    built, held = timed(lambda: BlockedRidge(x))
    added = ridge.shift(held.diagonal, reg=REG, scale="mean_diagonal")
    rounds = []
    for _ in range(2):
        factor, _ = timed(lambda: held.factorise(added))
        solve, _ = timed(held.solve)
        rounds.append({"factor": factor, "solve": solve})
    needed, _, _ = accelerated.exact_needs(log.n_users, log.n_items, "float32")
    return {**shape(log), "kernel": built, "rounds": rounds, "estimate": needed, **peak()}


def nystrom(arguments: argparse.Namespace) -> dict[str, Any]:
    """One λ, everything included: choosing centres, the pass, the solve."""
    log = made(arguments, 20_000)
    marks: list[float] = []
    begin = time.perf_counter()
    model = InfiniteAE(reg=REG, solver="nystrom", centres=arguments.centres)
    model.fit(log, progress=lambda *_, **__: marks.append(time.perf_counter() - begin))
    total = time.perf_counter() - begin
    block = memory.nystrom_block(arguments.centres)
    return {
        **shape(log),
        "centres": arguments.centres,
        "seconds": {"until the first block": marks[0], "pass": marks[-1] - marks[0], "total": total},
        "estimate": memory.nystrom_on_device(arguments.centres, log.n_items, block=block),
        **peak(),
    }


def growth(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a Nyström fit by the number of users."""
    rows = []
    for users in arguments.users or (5_000, 10_000, 20_000):
        log = generate(users, arguments.items, 100 * users, seed=1)
        model = InfiniteAE(reg=REG, solver="nystrom", centres=arguments.centres)
        seconds, _ = timed(lambda model=model, log=log: model.fit(log))
        rows.append({**shape(log), "seconds": seconds})
    return {"centres": arguments.centres, "rows": rows}


JOBS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    job.__name__: job for job in (exact, nystrom, growth)
}


def made(arguments: argparse.Namespace, users: int) -> Interactions:
    users = arguments.users[0] if arguments.users else users
    return generate(users, arguments.items, arguments.interactions or 100 * users, seed=1)


def shape(log: Interactions) -> dict[str, int]:
    return {"users": log.n_users, "items": log.n_items, "interactions": log.n_interactions}


def peak() -> dict[str, int]:
    """The most memory that JAX held on the accelerator."""
    if accelerated.device() is None:
        return {}
    import jax

    return {"peak": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    answer = call()
    return time.perf_counter() - begin, answer


if __name__ == "__main__":
    main()
