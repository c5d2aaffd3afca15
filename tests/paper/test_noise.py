"""The noise model: exactly what it says is flipped, nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.paper.noise import flip


def log_of(users: int, items: int, density: float, seed: int = 3) -> Interactions:
    rng = np.random.default_rng(seed)
    return Interactions.from_csr(sp.csr_array(rng.random((users, items)) < density))


def changed(a: Interactions, b: Interactions) -> np.ndarray:
    """How many entries of each user differ."""
    return ((a.matrix.toarray() > 0) != (b.matrix.toarray() > 0)).sum(axis=1)


@settings(max_examples=40, deadline=None)
@given(
    users=st.integers(1, 30),
    items=st.integers(1, 60),
    density=st.floats(0, 1),
    percent=st.floats(0, 100),
    seed=st.integers(0, 5),
)
def test_every_user_has_exactly_that_many_items_flipped(
    users: int, items: int, density: float, percent: float, seed: int
) -> None:
    log = log_of(users, items, density)
    noisy = flip(log, percent, seed=seed)
    assert (changed(log, noisy) == round(percent / 100 * items)).all()
    assert (noisy.users, noisy.items) == (log.users, log.items)
    # Twice with the same seed is nothing at all.
    assert (flip(noisy, percent, seed=seed).matrix != log.matrix).nnz == 0


def test_nothing_and_everything() -> None:
    log = log_of(7, 20, 0.3)
    assert (flip(log, 0).matrix != log.matrix).nnz == 0
    everything = flip(log, 100)
    assert (everything.matrix.toarray() == 1 - log.matrix.toarray()).all()


def test_blocks_of_users_do_not_change_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that needs several blocks is flipped as exactly as one that fits into one."""
    log = log_of(50, 40, 0.2)
    monkeypatch.setattr("infrec.paper.noise._BLOCK_ENTRIES", 300)
    assert (changed(log, flip(log, 10, seed=1)) == 4).all()


def test_the_seed_decides_and_every_item_is_as_likely() -> None:
    log = log_of(4000, 20, 0.0)
    one, other = flip(log, 25, seed=1), flip(log, 25, seed=2)
    assert (one.matrix != other.matrix).nnz > 0
    assert (one.matrix != flip(log, 25, seed=1).matrix).nnz == 0
    # 5 of 20 items in 4,000 rows: 1,000 each, standard deviation √(4000 · ¼ · ¾) ≈ 27.
    assert np.abs(one.item_counts - 1000).max() < 5 * 27.4


def test_weights_of_what_stays_are_kept() -> None:
    log = Interactions.from_csr(np.array([[2.0, 0.0, 3.0, 0.0, 0.5]] * 6))
    noisy = flip(log, 40, seed=4).matrix.toarray()
    before = log.matrix.toarray()
    kept = (noisy > 0) & (before > 0)
    assert (noisy[kept] == before[kept]).all()
    assert (noisy[(noisy > 0) & (before == 0)] == 1).all()


def test_a_share_beyond_all_items_is_refused() -> None:
    wide = log_of(1, 3706, 0.1)
    assert changed(wide, flip(wide, 5)).tolist() == [185]
    with pytest.raises(ConfigError, match="from 0 to 100"):
        flip(log_of(3, 5, 0.5), 101)
