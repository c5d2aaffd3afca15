"""Nyström: with every row a centre it is the exact ridge; blocks, their order and repeated centres do not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.errors import ConfigError, SolveError
from infrec.kernels import devices, gram, nystrom, nystrom_gpu
from infrec.kernels.ntk import NTK
from infrec.kernels.nystrom_gpu import DeviceFeatures

D = 25


@pytest.fixture(scope="module")
def x() -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(0).random((60, D)) < 0.3).astype(np.float32))


def alpha(
    x: sp.csr_array, centres: sp.csr_array, reg: float = 2.0, *, dtype: str = "float64", block: int = 1 << 16
) -> np.ndarray:
    features = devices.nystrom_features(centres, NTK(), dtype)
    return pass_over(features, nystrom.same(x, block)).solve(reg)


def pass_over(features: nystrom.Features, blocks: Iterable[nystrom.Block]) -> nystrom.Sums:
    sums = features.sums(D)
    sums.add_all(blocks)
    return sums


def scores(x: sp.csr_array, centres: sp.csr_array, reg: float = 2.0, **how: object) -> np.ndarray:
    return gram.kernel_matrix(NTK(), x, centres, dtype=np.float64) @ alpha(x, centres, reg, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "within"), [("float64", 1e-7), ("float32", 1e-4)])
@pytest.mark.parametrize("reg", [0.1, 2.0, 50.0])
def test_all_rows_as_centres_is_exact(x: sp.csr_array, reg: float, dtype: str, within: float) -> None:
    k = gram.kernel_matrix(NTK(), x, dtype=np.float64)
    exact = k @ np.linalg.solve(k + reg * np.trace(k) / 60 * np.eye(60), x.toarray())
    np.testing.assert_allclose(scores(x, x, reg, dtype=dtype), exact, atol=within)


def test_it_is_the_textbook_formula(x: sp.csr_array) -> None:
    """(K_SX K_XS + λ m K_SS)⁻¹ K_SX Y in float64, which is well conditioned for seven centres."""
    centres, wide = x[:7], gram.kernel_matrix(NTK(), x, x[:7], dtype=np.float64)
    mean = np.trace(gram.kernel_matrix(NTK(), x, dtype=np.float64)) / 60
    plain = np.linalg.solve(
        wide.T @ wide + 2.0 * mean * gram.kernel_matrix(NTK(), centres, dtype=np.float64),
        wide.T @ x.toarray(),
    )
    np.testing.assert_allclose(alpha(x, centres), plain, rtol=1e-6, atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(60)), block=st.integers(1, 61), seed=st.integers(0, 3))
def test_neither_order_nor_blocks_matter(order: list[int], block: int, seed: int) -> None:
    x = sp.csr_array((np.random.default_rng(seed).random((60, D)) < 0.3).astype(np.float32))
    np.testing.assert_allclose(alpha(x[order], x[:9], block=block), alpha(x, x[:9]), rtol=1e-8, atol=1e-10)


def test_large_blocks_are_cut(x: sp.csr_array, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = alpha(x, x[:9])
    monkeypatch.setattr(nystrom, "block_size", lambda centres: 7)
    np.testing.assert_allclose(alpha(x, x[:9]), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_repeated_centres_are_harmless(x: sp.csr_array, dtype: str) -> None:
    twice = sp.csr_array(sp.vstack([x[:20], x[:20], x[3:4]]))
    np.testing.assert_allclose(
        scores(x, twice, dtype=dtype),
        scores(x, x[:20], dtype=dtype),
        atol=2e-4 if dtype == "float32" else 1e-6,
    )


def test_repeated_centres_with_weights_are_harmless_in_float64() -> None:
    """Counts up to 300,000, every row twice: the kernel of the centres had a factor in float32 alone."""
    rng = np.random.default_rng(3)
    counts = (rng.random((30, 20)) < 0.3) * np.where(rng.random((30, 20)) < 0.3, 3e5, 1)
    some = sp.csr_array((counts * rng.uniform(0.5, 1, counts.shape)).astype(np.float32))
    rows = sp.csr_array(sp.vstack([some, some]))
    assert np.isfinite(nystrom.Features.of(rows, NTK(), dtype="float64").factor).all()


def test_sums_of_parts_add_up(x: sp.csr_array) -> None:
    """What each process of many would do: its own rows, then one addition."""
    features = nystrom.Features.of(x[:9], NTK(), dtype="float64")
    first, second, whole = (pass_over(features, nystrom.same(part)) for part in (x[:23], x[23:], x))
    first.merge(second)
    assert first.rows == 60
    np.testing.assert_allclose(first.solve(0.5), whole.solve(0.5), rtol=1e-9, atol=1e-12)


def test_inputs_and_targets_may_differ(x: sp.csr_array) -> None:
    """Scaled inputs (as weighting them does) with the plain rows as targets: the kernel is that of the
    inputs.
    """
    inputs = sp.csr_array(0.5 * x)
    features = nystrom.Features.of(inputs, NTK(), dtype="float64")
    sums = pass_over(features, [(inputs, x)])
    k = gram.kernel_matrix(NTK(), inputs, dtype=np.float64)
    exact = k @ np.linalg.solve(k + np.trace(k) / 60 * np.eye(60), x.toarray())
    np.testing.assert_allclose(k @ sums.solve(1.0), exact, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_accelerators_sums_are_the_same(x: sp.csr_array, weighted: bool) -> None:
    """JAX runs on what there is; float32 features with sums that lose nothing: 60 rows, so 1e-5 of the
    largest.
    """
    rows = sp.csr_array(x * 0.7) if weighted else x
    features = nystrom.Features.of(rows[:9], NTK())
    here = pass_over(features, nystrom.same(rows, 23))
    on_device = DeviceFeatures(features.rows, features.kernel, features.factor)
    for blocks in (nystrom.same(rows, 23), [(rows, rows.copy())]):
        sums = pass_over(on_device, blocks)
        assert (sums.rows, sums.diagonal) == (here.rows, pytest.approx(here.diagonal))
        for ours, theirs in ((np.triu(here.products), np.triu(sums.products)), (here.targets, sums.targets)):
            np.testing.assert_allclose(theirs, ours, atol=1e-5 * np.abs(ours).max())


@pytest.mark.parametrize("depth", [1, 2])
def test_the_accelerators_factor_is_the_same(x: sp.csr_array, depth: int) -> None:
    """Both in float64, from 0/1 rows and from weighted ones; repeated centres are harmless there too."""
    weighted = sp.csr_array(x * np.float32(0.7))
    for rows in (x[:9], weighted[:9], sp.csr_array(sp.vstack([x[:5], x[:5]]))):
        here = nystrom.Features.of(rows, NTK(depth))
        there = DeviceFeatures.of(rows, NTK(depth)).factor
        np.testing.assert_allclose(there, here.factor, rtol=1e-9, atol=1e-12)
        assert there.flags.f_contiguous
        inverse = np.asarray(nystrom_gpu.whitening(here.factor))
        np.testing.assert_allclose(inverse.T @ here.factor, np.eye(len(here)), atol=3e-4)


def test_the_accelerators_solve_is_the_same(x: sp.csr_array) -> None:
    """Both in float64, α in float32; the half of ZᵀZ below the diagonal is not looked at."""
    features = nystrom.Features.of(x[:9], NTK())
    here = pass_over(features, nystrom.same(x))
    there = DeviceFeatures(features.rows, features.kernel, features.factor).sums(D)
    there.merge(here)
    for reg in (0.5, 20.0):
        alpha = there.solve(reg)
        assert alpha.dtype == np.float32
        np.testing.assert_allclose(alpha, here.solve(reg), rtol=1e-5, atol=1e-6)
    there.merge(here, sign=-1)
    there.merge(here, sign=-1)
    there.rows = 60
    with pytest.raises(SolveError, match="not positive definite"):
        there.solve(0.0)


def test_sums_on_an_accelerator_keep_what_float32_rounds_away() -> None:
    """Two thousand equal blocks of one row: plain float32 sums of a seventh drift, pairs of them do not."""
    x = sp.csr_array(np.eye(1, 7, dtype=np.float32) / 7)
    features = DeviceFeatures.of(x, NTK())
    sums, alone = features.sums(7), features.sums(7)
    sums.add_all([(x, x)] * 2000)
    alone.add_all([(x, x)])
    np.testing.assert_allclose(sums.targets, 2000 * alone.targets, rtol=1e-9)


@pytest.mark.parametrize("device", [None, "a GPU"])
def test_centres_without_a_factor_are_refused(
    x: sp.csr_array, device: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "device", lambda: device)
    broken = x[:5].copy()
    broken.data[0] = np.nan
    with pytest.raises(SolveError, match="kernel of the 5 centres is not positive definite"):
        devices.nystrom_features(broken, NTK(), "float32")


def test_a_pass_goes_to_the_accelerator_where_there_is_one(
    x: sp.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = alpha(x, x[:9], dtype="float32")
    monkeypatch.setattr(devices, "device", lambda: "a GPU")
    monkeypatch.setattr(nystrom.Sums, "add", lambda *_: pytest.fail("on the CPU"))
    np.testing.assert_allclose(alpha(x, x[:9], dtype="float32"), here, atol=1e-4 * np.abs(here).max())


def test_errors(x: sp.csr_array) -> None:
    features = nystrom.Features.of(x[:5], NTK(), dtype="float64")
    with pytest.raises(ConfigError, match="no rows"):
        features.sums(D).solve(1.0)
    sums = pass_over(features, nystrom.same(x[:3]))
    for reg in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="reg is"):
            sums.solve(reg)
    with pytest.raises(SolveError, match="not positive definite"):
        sums.solve(0.0)  # three rows cannot say what five weights are
    with pytest.raises(ConfigError, match="no centres"):
        nystrom.Features.of(x[:0], NTK())
    with pytest.raises(ConfigError, match="expected as many rows"):
        pass_over(features, [(x, x[:3])])


@pytest.mark.parametrize("kind", [nystrom.Features, DeviceFeatures])
def test_rows_that_are_taken_out_again_leave_nothing(x: sp.csr_array, kind: type[nystrom.Features]) -> None:
    features = kind.of(x[:9], NTK())
    plain, changed = pass_over(features, nystrom.same(x[:40])), pass_over(features, nystrom.same(x, 20))
    changed.add_all(nystrom.same(x[40:]), sign=-1)
    assert plain.rows == changed.rows == 40
    one, other = plain.over_team().solve(1.0), changed.over_team().solve(1.0)
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [nystrom.Features, DeviceFeatures])
def test_rows_that_change_are_exchanged(
    x: sp.csr_array, kind: type[nystrom.Features], weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of some rows, less of others, other weights; in blocks of seven."""
    monkeypatch.setattr(nystrom, "block_size", lambda centres: 7)
    rng = np.random.default_rng(1)
    after = x.toarray()
    changed = np.arange(3, 60, 3)
    after[changed] = np.where(rng.random((len(changed), D)) < 0.1, 1 - after[changed], after[changed])
    if weighted:
        after[changed] *= rng.random((len(changed), D)) + 0.5
    then = sp.csr_array(after.astype(np.float32))
    features = kind.of(x[:9], NTK())
    sums, fresh = pass_over(features, nystrom.same(x)), pass_over(features, nystrom.same(then))
    sums.exchange(x[changed], then[changed])
    assert sums.rows == 60
    np.testing.assert_allclose(sums.solve(2.0), fresh.solve(2.0), rtol=1e-3, atol=1e-5)
    centres = gram.kernel_matrix(NTK(), then, x[:9])
    np.testing.assert_allclose(centres @ sums.solve(2.0), centres @ fresh.solve(2.0), atol=1e-5)
