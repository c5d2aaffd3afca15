"""Real users as dense blocks: the same users and values however they are brought to the device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.distillation.batches import UserBatches, densify, densify_on_device


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), fractional=st.booleans())
def test_only_stored_values_travel_and_arrive_where_they_belong(seed: int, fractional: bool) -> None:
    rng = np.random.default_rng(seed)
    # 32 places for whatever is stored: all examples share a compiled function.
    matrix = sp.random_array((9, 7), density=0.3, rng=rng, dtype=np.float32, format="csr")
    if not fractional:
        matrix.data[:] = 1
    rows = rng.permutation(9)[: rng.integers(1, 9)]
    there, here = densify_on_device(matrix, rows, 10), densify(matrix, rows, 10)
    assert there.dtype == here.dtype
    np.testing.assert_array_equal(np.asarray(there), here)


@pytest.mark.parametrize("batch", [None, 20])
def test_an_accelerator_is_fed_the_same_users(batch: int | None) -> None:
    matrix = sp.random_array((50, 12), density=0.3, rng=np.random.default_rng(0), format="csr")
    matrix = sp.csr_array(matrix.astype(bool), dtype=np.float32)
    one, other = (UserBatches(matrix, batch=batch, seed=3, on_gpu=on_gpu) for on_gpu in (False, True))
    for at in range(2):
        here, there = one.at(at), other.at(at)
        np.testing.assert_array_equal(here.x, there.x)
        np.testing.assert_array_equal(here.user, there.user)
        np.testing.assert_array_equal(here.weight, there.weight)
    different = not np.array_equal(one.at(0).user, one.at(1).user)
    assert different == (batch is not None)
