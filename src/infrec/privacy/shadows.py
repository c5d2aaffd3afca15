"""The likelihood ratio: what would a person's score be had they been in, and had they not?

Shadows are releases made in the same way from random halves of everybody whose membership is at stake. For
each person the scores of shadows that held them and of those that did not are two normal distributions,
with their own means and one common variance each (there are few shadows); the logarithm of the ratio of the
two densities, at the score that the real release gives, is the attack's score. From "Membership inference
attacks from first principles" (Carlini and others, IEEE S&P 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from infrec.errors import ConfigError
from infrec.progress import Progress, silent
from infrec.randomness import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 4
Scores = Mapping[str, "NDArray[np.float64]"]


def check(shadows: int) -> None:
    if shadows < FEWEST or shadows % 2:
        raise ConfigError(f"{shadows} shadows were asked for; expected an even number of at least {FEWEST}.")


def halves(people: int, shadows: int, seed: int) -> NDArray[np.bool_]:
    """[shadow, person]: who is in which; everybody in half of the shadows."""
    rng = generator(seed, "shadows")
    order = rng.random((shadows, people)).argsort(axis=0)
    return order < shadows // 2


def likelihood(
    observed: Scores,
    shadow: Callable[[NDArray[np.int64], int], Scores],
    people: int,
    *,
    shadows: int,
    seed: int = 42,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """The log-likelihood ratio of each person, summed over the scores.

    observed: what the real release says of everybody. shadow: makes one from the people numbered so, and
    scores everybody with it.
    """
    member = halves(people, shadows, seed)
    made = []
    for at in range(shadows):
        made.append(shadow(np.flatnonzero(member[at]), at))
        progress("shadows", at + 1, shadows)
    return ratio(observed, made, member)


def ratio(observed: Scores, made: list[Scores], member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """log N(score; mean with, variance with) − log N(score; mean without, variance without), summed."""
    total = np.zeros(member.shape[1])
    for name, score in observed.items():
        table = np.stack([scores[name] for scores in made])
        for inside, sign in ((member, 1.0), (~member, -1.0)):
            count = inside.sum(axis=0)
            mean = np.where(inside, table, 0.0).sum(axis=0) / count
            variance = np.where(inside, (table - mean) ** 2, 0.0).sum() / (count - 1).sum() + 1e-18
            total += sign * (-0.5 * np.log(variance) - (score - mean) ** 2 / (2 * variance))
    return total
