"""What a validation and a seed decide: λ while distilling, and every draw of the AR-CF-style generator."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.distillation import distill
from infrec.distillation.validation import Verdict
from infrec.models import trainer
from infrec.samplers import ar_cf
from infrec.samplers.ar_cf import ARCF

pytestmark = pytest.mark.usefixtures("compiled_quickly")

EVERY = 2


def losses(log: Interactions, chosen: float, *, rechoose: bool = True) -> dict[int, float]:
    """The loss at each validation of a distillation whose validation always chooses this λ."""
    summary = distill(
        log,
        6,
        mode="published",
        draws=5,
        targets="own",
        steps=3 * EVERY,
        validate_every=EVERY,
        reg=0.5,
        rechoose=rechoose,
        seed=1,
        on_validate=lambda x_hat, grid: Verdict(1.0, chosen, {}),
    )
    history: list[Any] = summary.about["history"]
    return {one["step"]: one["loss"] for one in history if one["step"]}


def test_lambda_is_chosen_again_while_distilling(small_log: Interactions) -> None:
    """Up to the first validation after step 0 it cannot matter; from then on the loss has another λ."""
    small, large = (losses(small_log, reg) for reg in (0.01, 50.0))
    kept = losses(small_log, 50.0, rechoose=False)
    assert small[EVERY] == large[EVERY] == kept[EVERY]
    later = (2 * EVERY, 3 * EVERY)
    assert all(len({small[step], large[step], kept[step]}) == 3 for step in later)
    assert losses(small_log, 0.01, rechoose=False) == kept


def test_every_draw_of_the_generator_follows_its_seed(
    small_log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start, its training, whose profiles come up, and what they are given: each by the seed it has.

    Only the directions of the profiles are a property of the log.
    """
    seeds: dict[str, set[Any]] = {}

    def spied(real: Any) -> Any:
        def call(seed: int, *names: str) -> Any:
            seeds.setdefault(" ".join(names), set()).add(seed)
            return real(seed, *names)

        return call

    for module, name in ((ar_cf, "stream"), (trainer, "stream"), (trainer, "generator")):
        monkeypatch.setattr(module, name, spied(getattr(module, name)))
    ARCF(seed=17, epochs=1, hidden=8, latent=4, profile=4).fit(small_log).generate(30)
    assert seeds.pop("profiles") == {0}
    rounds = [name for name in seeds if name.startswith("ar-cf round")]
    assert rounds and set(seeds) == {"start ar-cf", "train ar-cf", "ar-cf 0", *rounds}
    assert all(own == {17} for own in seeds.values()), seeds


def test_each_part_of_the_seed_changes_the_users(small_log: Interactions) -> None:
    settings: dict[str, Any] = {"epochs": 1, "hidden": 8, "latent": 4, "profile": 4}
    one, other = (ARCF(seed=seed, **settings).fit(small_log) for seed in (1, 2))
    assert any((one.parameters[name] != other.parameters[name]).any() for name in one.parameters)
    # With the same networks, the draws alone.
    other.parameters, other.settings = one.parameters, dataclasses.replace(one.settings, seed=2)
    same = ARCF(seed=1, **settings).fit(small_log)
    users, others, again = (model.generate(40).matrix.toarray() for model in (one, other, same))
    assert not np.array_equal(users, others)
    np.testing.assert_array_equal(users, again)
