"""One seed in, independent named streams out. There is no global random state anywhere in infrec.

A stream is named by strings, so adding a new use of randomness never changes an old one.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from infrec.errors import ConfigError

if TYPE_CHECKING:
    import jax


def generator(seed: int, *names: str) -> np.random.Generator:
    """A numpy generator for the stream `names` of `seed`."""
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(_checked(seed), spawn_key=_words(names)))
    )


def key(seed: int, *names: str) -> jax.Array:
    """A JAX key for the stream `names` of `seed`."""
    import jax

    out = jax.random.key(_checked(seed) % 2**32)
    for word in _words(names):
        out = jax.random.fold_in(out, word)
    return out


def _words(names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(zlib.crc32(name.encode()) for name in names)


def _checked(seed: int) -> int:
    if seed < 0:
        raise ConfigError(f"seed is {seed}; expected an integer of 0 or more.")
    return int(seed)
