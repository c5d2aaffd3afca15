"""Sums of a Nyström pass over several processes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from infrec.kernels import nystrom
from infrec.kernels.collectives import SingleProcess
from infrec.kernels.ntk import NTK
from infrec.kernels.nystrom import ShardedSums


def test_rows_that_are_taken_out_again_leave_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = sp.csr_array((rng.random((60, 30)) < 0.2).astype(np.float32))
    features = nystrom.Features.of(rows[:10], NTK())
    plain, changed = (ShardedSums(features, 30, SingleProcess()) for _ in range(2))
    plain.add(rows[:40])
    changed.add(rows[:40])
    changed.add(rows[40:])
    changed.add(rows[40:], sign=-1)
    one, other = plain.solvable(), changed.solvable()
    assert one.rows == other.rows == 40
    np.testing.assert_allclose(one.solve(features, reg=1), other.solve(features, reg=1), rtol=1e-5, atol=1e-7)


def test_sums_that_were_formed_on_an_accelerator_are_exchanged_at_the_end() -> None:
    rows = sp.csr_array((np.random.default_rng(1).random((50, 30)) < 0.2).astype(np.float32))
    features = nystrom.Features.of(rows[:10], NTK())
    here, there = (ShardedSums(features, 30, SingleProcess()) for _ in range(2))
    there._on_device = True
    for sums in (here, there):
        sums.take(iter([rows[:20], rows[20:]]), 2)
        sums.take(iter([rows[:5]]), 1, sign=-1)
    assert here.rows == there.rows == 45
    np.testing.assert_allclose(
        there.solvable().solve(features, reg=1), here.solvable().solve(features, reg=1), rtol=1e-6
    )
