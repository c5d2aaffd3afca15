"""Who is set aside depends on the seed and the id alone."""

from __future__ import annotations

import numpy as np
import pytest

from infrec.data import Interactions, Vocabulary
from infrec.errors import ConfigError, DataError
from infrec.splits import holdout, is_set_aside, set_aside


def test_a_share_is_set_aside_by_id_alone() -> None:
    ids = [f"user {n}" for n in range(5000)]
    chosen = is_set_aside(Vocabulary.of(ids), 0.1, 42)
    assert 430 < chosen.sum() < 570  # 500 ± 3.3 standard deviations
    order = np.random.default_rng(1).permutation(5000)[:1000]
    some = is_set_aside(Vocabulary.of([ids[at] for at in order]), 0.1, 42)
    np.testing.assert_array_equal(some, chosen[order])
    longer = is_set_aside(Vocabulary.of([*ids, "x" * 200]), 0.1, 42)
    np.testing.assert_array_equal(longer[:-1], chosen)


def test_another_seed_sets_others_aside_and_numbers_work() -> None:
    ids = Vocabulary.numbered(4000)
    one, other = is_set_aside(ids, 0.5, 1), is_set_aside(ids, 0.5, 2)
    assert 0.45 < (one == other).mean() < 0.55
    np.testing.assert_array_equal(one, is_set_aside(Vocabulary.of([str(n) for n in range(4000)]), 0.5, 1))
    assert 0.45 < is_set_aside(ids, 0.5, 2**200 + 3).mean() < 0.55  # a seed may be of any size


def test_the_two_sides_are_everybody(small_log: Interactions) -> None:
    split = holdout(small_log)
    kept, aside = set_aside(split, 0.2, 7)
    assert kept.train.n_users + aside.n_users == split.train.n_users
    assert set(kept.train.users.ids.to_pylist()).isdisjoint(aside.users.ids.to_pylist())
    assert kept.train.items == aside.items == split.train.items


def test_impossible_shares_are_refused(small_log: Interactions) -> None:
    split = holdout(small_log)
    with pytest.raises(ConfigError, match="a share above 0 and below 1"):
        set_aside(split, 1.5, 1)
    with pytest.raises(DataError, match="expected some on"):
        set_aside(split, 1e-9, 1)
