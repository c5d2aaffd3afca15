"""Data whose right answer is obvious, and the way to the real datasets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (it brings an OpenBLAS of its own, which has to be there to be told)
import threadpoolctl

from infrec.data import Interactions

# Where Python may not keep bytecode (images of containers often say so), each of some hundred processes would
# compile JAX's sources again: it is kept for tests, and away from the sources.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]

# Workers share the cores: with a thread for each core in each of them, threads would wait for one another.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, share)))

# OpenBLAS starts no more threads than there are cores, whatever the variable says; told again, it does.
if threads := os.environ.get("OPENBLAS_NUM_THREADS"):
    threadpoolctl.threadpool_limits(int(threads), user_api="blas")

# The files that take longest, longest first. Each is the work of one process (`--dist loadfile`): begun last,
# it would keep the others waiting.
LONG = (
    "models/test_real_data.py",
    "distillation/test_real_data.py",
    "paper/test_ray_runner.py",
    "cli/test_distill_distributed.py",
    "cli/test_distributed.py",
    "serve/test_lifecycle.py",
    "serve/page/test_using.py",
    "models/test_gradient_model.py",
    "paper/test_experiments.py",
    "distillation/test_batches_on_devices.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    place = {here / name: at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@contextmanager
def quick_compilation() -> Iterator[None]:
    """XLA optimises little, here and in processes that are started meanwhile.

    Compiling is most of the time of a test of few steps, and this halves it; many steps take longer. Nothing
    that was compiled before is used here, nor afterwards what is compiled here: bits can be compared.
    """
    import jax

    name = "jax_disable_most_optimizations"
    before = jax.config.values[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name.upper(), "1")
        jax.config.update(name, True)
        jax.clear_caches()
        try:
            yield
        finally:
            jax.config.update(name, before)
            jax.clear_caches()


@pytest.fixture(scope="module")
def compiled_quickly() -> Iterator[None]:
    """For files whose tests take few steps."""
    with quick_compilation():
        yield


@pytest.fixture(scope="session")
def checkerboard() -> Interactions:
    """Even users like even items, odd users odd ones; each user misses exactly one item of their colour.

    For user u that is item u (20 users, 20 items): the first recommendation of any sensible model.
    """
    u, i = np.meshgrid(np.arange(20), np.arange(20), indexing="ij")
    return Interactions.from_csr(((u + i) % 2 == 0) & (u != i))


@pytest.fixture(scope="session")
def small_log() -> Interactions:
    """120 users in 4 groups over 60 items: each group prefers its own quarter of them."""
    rng = np.random.default_rng(7)
    taste = np.full((120, 60), 0.06)
    for group in range(4):
        taste[group * 30 : (group + 1) * 30, group * 15 : (group + 1) * 15] = 0.55
    likes = rng.random(taste.shape) < taste
    likes[np.arange(120), rng.integers(0, 60, 120)] = True
    return Interactions.from_csr(
        likes,
        users=[f"u{n:03}" for n in range(120)],
        items=[f"i{n:02}" for n in range(60)],
        titles=[f"Item {n}" for n in range(60)],
    )


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets; tests that need it are marked `real_data` and skip without it."""
    folder = os.environ.get("INFREC_DATA")
    if not folder or not (Path(folder) / "ml-1m.parquet").is_file():
        if os.environ.get("INFREC_REQUIRE_DATA"):
            pytest.fail("INFREC_REQUIRE_DATA is set, but $INFREC_DATA does not hold ml-1m.parquet.")
        pytest.skip("needs the real datasets: point INFREC_DATA at a folder that holds ml-1m.parquet")
    return Path(folder)
