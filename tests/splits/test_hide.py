"""A holdout inside a log: what is hidden and what is left are the log again, user by user."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.splits import hide


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 15),
    st.floats(0.05, 0.6),
    st.integers(0, 99),
)
def test_left_and_hidden_are_the_log(seed: int, users: int, items: int, share: float, cut: int) -> None:
    rng = np.random.default_rng(seed)
    likes = rng.random((users, items)) < 0.4
    likes[0, 0] = True
    log = Interactions.from_csr(likes)
    left, hidden = hide(log, share=share, seed=cut)
    assert (left.users, left.items) == (log.users, log.items) == (hidden.users, hidden.items)
    np.testing.assert_array_equal(left.matrix.toarray() + hidden.matrix.toarray(), log.matrix.toarray())
    for n, h in zip(log.user_counts, hidden.user_counts, strict=True):
        assert h == (0 if n < 2 else max(1, int(share * n)))


def test_every_interaction_is_hidden_equally_often() -> None:
    """Two of ten a time: over 600 seeds each is hidden 120 ± 49 times (5 standard deviations)."""
    log = Interactions.from_csr(np.ones((1, 10)))
    times = sum(hide(log, share=0.2, seed=seed)[1].matrix.toarray()[0] for seed in range(600))
    assert np.abs(times - 120).max() < 49


def test_the_same_seed_hides_the_same() -> None:
    log = Interactions.from_csr(np.ones((30, 9)))
    first, again, other = (hide(log, seed=seed)[1].matrix.toarray() for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
