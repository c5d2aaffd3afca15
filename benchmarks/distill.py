"""Time of a distillation step in each mode, beside a plain version and the floor of the matrix products.

    python benchmarks/distill.py [--data ml-1m] [--users 500] [--draws 200] [--modes weighted soft published]
                                 [--repeat 10] [--no-plain] [--whole MODE] [--json]

The plain version is what one writes first: autodiff through everything, all users at once, a scan over Gumbel
draws from `jax.random`. Both run in the same process, one after the other. The floor counts the
floating-point operations of the matrix products (5 with all real users, 6 of the summary's size) at the
measured rate of such a product. Data: the registered dataset where $INFREC_DATA has it, else generated data
of ML-1M's shape.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from infrec.data import Interactions
from infrec.distillation import loop as steps
from infrec.distillation import relaxations, start
from infrec.distillation.batches import UserBatches
from infrec.distillation.leave_one_out import LeaveOneOutTargets
from infrec.distillation.settings import DistillSettings
from infrec.errors import InfrecError
from infrec.kernels.ntk import NTK
from infrec.splits import Split, holdout


def load(name: str) -> Split:
    from infrec.data import datasets

    try:
        return holdout(datasets.load(name))
    except InfrecError:
        from infrec.data.synthetic import generate

        return holdout(generate(6040, 3706, 1_000_209, 42))


def median_seconds(work: Callable[[], Any], repeat: int) -> float:
    jax.block_until_ready(work())
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def product_rate(n: int, mu: int, d: int) -> float:
    """Floating-point operations per second of K α, at a step's default precision."""
    rng = np.random.default_rng(0)
    left = jnp.asarray(rng.random((n, mu), np.float32))
    right = jnp.asarray(rng.random((mu, d), np.float32))
    product = jax.jit(jnp.matmul)
    # Several under way hide the time it takes to launch one.
    times = 50 if jax.default_backend() == "gpu" else 1

    def some() -> Any:
        for _ in range(times):
            out = product(left, right)
        return out

    return times * 2 * n * mu * d / median_seconds(some, 5)


def plain_step(config: DistillSettings, train: Interactions, sizes: Any) -> Callable[[Any, Any, Any], Any]:
    """Loss and gradient as one would first write them."""
    d, mean = train.n_items, train.n_interactions / train.n_users
    assert config.draws is not None and config.mass is not None, "settings must be resolved"
    draws, mass = config.draws, config.mass

    def summary(logits: Any, key: Any) -> Any:
        if config.mode == "published":

            def draw(total: Any, key: Any) -> tuple[Any, None]:
                noise = jax.random.gumbel(key, logits.shape)
                return total + jax.nn.softmax((logits + noise) / config.tau, axis=1), None

            keys = jax.random.split(key, draws)
            total, _ = jax.lax.scan(jax.checkpoint(draw), jnp.zeros_like(logits), keys)
            return jnp.minimum(total, 1.0)
        soft = jnp.minimum(mass * jax.nn.softmax(logits / config.tau, axis=1), 1.0)
        if config.mode == "soft":
            return soft
        if config.mode == "weighted":
            # Not the product's own rule, which gives each row a fifth of the mean: it costs the same.
            order = jnp.argsort(jnp.argsort(-soft, axis=None)).reshape(soft.shape)
            kept = jnp.where(order < sizes.sum(), relaxations.levels(soft), 0.0)
            return soft + jax.lax.stop_gradient(kept - soft)
        rank = jnp.argsort(jnp.argsort(-logits, axis=1), axis=1)
        hard = (rank < sizes[:, None]).astype(logits.dtype)
        return soft + jax.lax.stop_gradient(hard - soft)

    def kernel(a: Any, b: Any) -> Any:
        return NTK().from_gram(a @ b.T, (a * a).sum(1), (b * b).sum(1), d=d)

    def loss(logits: Any, x: Any, key: Any) -> Any:
        x_hat = summary(logits, key)
        given, target, shown = x, x, None
        if config.hidden:
            hide = jax.random.uniform(jax.random.fold_in(key, 1), x.shape) < config.hidden
            given, target, shown = jnp.where(hide, 0.0, x), jnp.where(hide, x, 0.0), (x > 0) & ~hide
        k = kernel(x_hat, x_hat)
        alpha = jax.scipy.linalg.solve(
            k + config.reg * jnp.trace(k) / len(k) * jnp.eye(len(k)), x_hat, assume_a="pos"
        )
        scores = kernel(given, x_hat) @ alpha
        if shown is not None:
            scores = jnp.where(shown, -1e9, scores)
        likelihood = (jax.nn.log_softmax(scores, axis=1) * target).sum(1).mean()
        return -likelihood + config.l1 * x_hat.sum(1).mean() / mean

    return jax.jit(jax.value_and_grad(loss))


def measure(config: DistillSettings, train: Interactions, repeat: int, plain: bool) -> dict[str, Any]:
    matrix = train.matrix
    on_gpu = jax.default_backend() == "gpu"
    others = (
        partial(LeaveOneOutTargets.fit, matrix, sharpness=config.sharpness or 1.0)
        if config.targets == "others"
        else None
    )
    feed = UserBatches(matrix, batch=None, seed=0, on_gpu=on_gpu, others=others)
    data = steps.Data(
        jnp.asarray(start.row_sizes(matrix, config)),
        jnp.float32(matrix.nnz / matrix.shape[0]),
        jnp.asarray([1, 2], jnp.uint32),
    )
    logits = jnp.asarray(start.logits(matrix, config))
    state, users = steps.begin(logits, config.reg), feed.at(0)
    began = time.perf_counter()
    compiled = steps.step.lower(state, users, data, jnp.uint32(0), config).compile()
    out: dict[str, Any] = {"mode": config.mode, "compile_s": time.perf_counter() - began}
    memory: Any = compiled.memory_analysis()
    out["temporary_mb"] = memory.temp_size_in_bytes / 2**20
    batch = 20 if on_gpu else 1  # a GPU runs ahead of the host: time several steps together

    def some() -> Any:
        nonlocal state
        for number in range(batch):
            state, loss = compiled(state, users, data, jnp.uint32(number))
        return loss

    out["ms_per_step"] = median_seconds(some, repeat) * 1e3 / batch
    out["loss"] = float(some())
    if plain:
        del state
        x = jnp.asarray(matrix.toarray())
        function = plain_step(config, train, data.sizes)
        out["plain_ms"] = 1e3 * median_seconds(
            partial(function, logits, x, jax.random.key(0)), max(2, repeat // 4)
        )
    return out


def whole(split: Split, mode: str, users: int) -> dict[str, Any]:
    """A whole distillation with validation, its compilation already done by a first short one."""
    from infrec.distillation import distill

    distill(split, users=users, mode=mode, steps=26, validate_every=25)
    start = time.perf_counter()
    summary = distill(split, users=users, mode=mode)
    facts = {name: summary.about[name] for name in ("steps", "best_step", "validation", "ms_per_step")}
    return {"mode": mode, "seconds": time.perf_counter() - start, "bytes": summary.bytes, **facts}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", default="ml-1m")
    options.add_argument("--users", type=int, default=500)
    options.add_argument("--draws", type=int, default=200)
    options.add_argument("--modes", nargs="+", default=["weighted", "soft", "published"])
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--no-plain", action="store_true")
    options.add_argument("--whole", nargs="*", default=[], metavar="MODE")
    options.add_argument("--precision", default="default", choices=["default", "highest", "bfloat16"])
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    split = load(chosen.data)
    train = split.train
    n, mu, d = train.n_users, chosen.users, train.n_items
    rate = product_rate(n, mu, d)
    floor = (10 * n * mu * d + 12 * mu * mu * d) / rate * 1e3
    rows = []
    for mode in chosen.modes:
        config = DistillSettings.of(mode, users=mu, draws=chosen.draws, precision=chosen.precision).resolved(
            n_users=n, n_items=d, interactions=train.n_interactions
        )
        rows.append(measure(config, train, chosen.repeat, not chosen.no_plain))
    done = [whole(split, mode, mu) for mode in chosen.whole]
    record = {
        "command": " ".join(["python", *sys.argv]),
        "device": jax.devices()[0].device_kind,
        "host": f"{platform.machine()}, Python {platform.python_version()}, JAX {jax.__version__}",
        "data": {"name": chosen.data, "users": n, "items": d, "interactions": train.n_interactions},
        "synthetic_users": mu,
        "precision": chosen.precision,
        "draws": chosen.draws,
        "product_gflops": rate / 1e9,
        "floor_ms": floor,
        "steps": rows,
        "whole": done,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if chosen.json:
        print(json.dumps(record, indent=2))
        return
    print(f"{record['device']}: {n:,} users × {d:,} items, {mu} synthetic users, {chosen.draws} draws")
    print(f"matrix products: {rate / 1e9:,.0f} GFLOP/s, floor of a step {floor:.2f} ms")
    for row in rows:
        beside = f", plain {row['plain_ms']:.2f} ms" if "plain_ms" in row else ""
        print(
            f"  {row['mode']:10s} {row['ms_per_step']:9.2f} ms a step "
            f"({row['ms_per_step'] / floor:.2f} × floor)"
            f"{beside}; {row['temporary_mb']:.0f} MB temporary, compiled in {row['compile_s']:.1f} s"
        )
    for row in done:
        print(f"  whole {row['mode']}: {row['seconds']:.1f} s, {row['steps']} steps, {row['validation']}")


if __name__ == "__main__":
    main()
