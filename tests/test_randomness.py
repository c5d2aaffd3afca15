"""Streams are named: reproducible, different from each other, and untouched by the addition of others."""

from __future__ import annotations

import numpy as np
import pytest

from infrec import randomness
from infrec.errors import ConfigError


def test_the_same_name_gives_the_same_numbers() -> None:
    first, again = (randomness.generator(7, "split", "users").random(5) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_these_numbers_never_change() -> None:
    """Pinned: results that were published with a seed can be made again."""
    assert randomness.generator(42, "pinned").integers(0, 1000, 4).tolist() == PINNED


def test_seeds_and_names_are_independent() -> None:
    """Correlation of 10,000 numbers: standard deviation 0.01, so 0.05 is five of them."""
    streams = [
        randomness.generator(seed, *names).standard_normal(10_000)
        for seed in (0, 1)
        for names in ((), ("a",), ("b",), ("a", "b"), ("b", "a"))
    ]
    correlation = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlation).max() < 0.05


def test_numpy_global_state_is_not_touched() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    randomness.generator(1, "x").random(100)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_jax_keys_follow_the_same_rule() -> None:
    import jax

    same = [jax.random.key_data(randomness.key(3, "draws")).tolist() for _ in range(2)]
    other = jax.random.key_data(randomness.key(3, "other")).tolist()
    assert same[0] == same[1] != other
    assert jax.random.key_data(randomness.key(4, "draws")).tolist() != same[0]


@pytest.mark.parametrize("make", [randomness.generator, randomness.key])
def test_a_negative_seed_is_refused(make: object) -> None:
    with pytest.raises(ConfigError, match="seed is -1"):
        make(-1)  # type: ignore[operator]


PINNED = [75, 782, 683, 112]
