"""The solve through JAX is the solve through LAPACK; an accelerator is not looked for where none can be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.errors import MemoryBudgetError, SolveError
from infrec.kernels import accelerated, memory


@pytest.fixture(scope="module")
def x() -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(0).random((150, 90)) < 0.05).astype(np.float32))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_jax_and_lapack_agree(x: sp.csr_array, depth: int) -> None:
    """Both in float32 at reg = 1, where cond · eps = 151 · 1.2e-7 < 2e-5; JAX runs on what there is."""
    there, here = accelerated._on_accelerator(x, depth)(1.0), accelerated._on_cpu(x, depth, "float32")(1.0)
    assert there is not None
    assert here is not None
    assert there.dtype == np.float32
    np.testing.assert_allclose(there, here, atol=4e-5 * np.abs(here).max())


@pytest.mark.parametrize("through", ["jax", "lapack"])
@pytest.mark.parametrize("solve", [False, True])
def test_duplicate_rows_at_zero_reg_are_refused_not_nan(x: sp.csr_array, through: str, solve: bool) -> None:
    twice = sp.csr_array(sp.vstack([x, x[:3]]))
    solver = (
        accelerated._on_accelerator(twice, 1)
        if through == "jax"
        else accelerated._on_cpu(twice, 1, "float32")
    )
    with pytest.raises(SolveError, match="not positive definite"):
        solver(0.0, solve=solve)
    assert solver(1.0, solve=False) is None


def test_small_and_double_precision_problems_stay_on_the_cpu(
    x: sp.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerated, "device", lambda: "a GPU")
    monkeypatch.setattr(accelerated, "_on_accelerator", lambda x, depth: "there")
    assert accelerated.solver(x, 1, "float32") != "there"
    monkeypatch.setattr(accelerated, "_WORTH_IT", 100)
    assert accelerated.solver(x, 1, "float32") == "there"
    assert accelerated.solver(x, 1, "float64") != "there"


def test_the_devices_memory_is_asked_too(x: sp.csr_array, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    class Small:
        device_kind = "toy"

        def memory_stats(self) -> dict[str, int]:
            return {"bytes_limit": memory.exact_fit(150, 90), "bytes_in_use": 1000}

    monkeypatch.setattr(jax, "devices", lambda: [Small()])
    with pytest.raises(MemoryBudgetError, match=r"150 users on .*JAX_PLATFORMS=cpu"):
        accelerated._on_accelerator(x, 1)


def test_jax_platforms_cpu_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    accelerated.device.cache_clear()
    assert accelerated.device() is None
    accelerated.device.cache_clear()


def test_short_compilations_are_kept_too_unless_the_user_says_otherwise() -> None:
    import jax

    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    try:
        for given, kept in ((1.0, 0.05), (3.0, 3.0)):
            jax.config.update(names[1], given)
            accelerated._keep_compiled()
            assert getattr(jax.config, names[1]) == kept
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


@pytest.mark.parametrize("there", [False, True])
def test_products_are_the_same_there(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, 30)).astype(np.float32) for n in (25, 30))
    once, twice = a @ b, a + 0.5 * (a @ b)
    monkeypatch.setattr(accelerated, "_ROWS", 20)
    if there:
        monkeypatch.setattr(accelerated, "device", lambda: "a GPU")
        monkeypatch.setattr(accelerated, "_WORTH_IT", 20)
        monkeypatch.setattr(accelerated, "_ROWS_WORTH_IT", 20)
    np.testing.assert_allclose(accelerated.product(a, b), once, rtol=1e-5, atol=1e-4)
    right = accelerated.RightFactor(b)
    for some in (a, a[:19], a):  # all of it there, too few of it, there again
        np.testing.assert_allclose(right.after(some), once[: len(some)], rtol=1e-5, atol=1e-4)
    assert (right._there is not None) is there
    accelerated.add_product(a, b, 0.5)
    np.testing.assert_allclose(a, twice, rtol=1e-5, atol=1e-4)
