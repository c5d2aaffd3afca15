"""Weights that count for something even, and weights that fade, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.data.strength import Fading, Strength, StrengthOptions, check, faded, seconds
from infrec.errors import ArtifactError, ConfigError, DataError

PLAYS = Interactions.from_csr([[1.0, 3.0], [0.0, 1000.0]])


@pytest.mark.parametrize(
    ("how", "shares"),
    [
        ("log1p", np.log1p([1, 3, 1000])),
        ("cap:10", [1, 3, 10]),
        ("none", [1, 1, 1]),
        ("raw", [1, 3, 1000]),
    ],
)
def test_functions(how: str, shares: list[float]) -> None:
    """Each divided by its mean, so that an interaction without a weight is an average one."""
    weights = Strength.of(how, PLAYS)(PLAYS).matrix.data
    expected = np.array(shares) if how == "raw" else np.array(shares) / np.mean(shares)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_quantiles() -> None:
    """Ranks alone matter: a thousand times the counts are the same strengths."""
    rng = np.random.default_rng(0)
    log = Interactions.from_csr(rng.lognormal(3, 2, (30, 20)))
    strength = Strength.of("quantile", log)(log).matrix.data
    assert strength.mean() == pytest.approx(1, rel=1e-6) and 1.9 < strength.max() < 2.1
    assert (np.diff(strength[np.argsort(log.matrix.data)]) >= 0).all()
    louder = Interactions.from_csr(1000 * log.matrix)
    np.testing.assert_allclose(Strength.of("quantile", louder)(louder).matrix.data, strength, atol=0.03)


@pytest.mark.parametrize("how", ["log1p", "quantile", "cap:2", "none"])
def test_it_is_told_and_read_again(how: str) -> None:
    strength = Strength.of(how, PLAYS)
    assert Strength.read(strength.about) == strength
    with pytest.raises(ArtifactError, match="weights as infrec does"):
        Strength.read({"as": how})
    with pytest.raises(ArtifactError, match="weights as infrec does"):
        Strength.read({**strength.about, "mean": 0.0})


@pytest.mark.parametrize("how", ["cap", "cap:", "cap:0", "cap:-1", "cap:inf", "cap:nan", "sqrt", ""])
def test_no_function(how: str) -> None:
    with pytest.raises(ConfigError, match=r"weight_as is .*; expected log1p"):
        check(how)


def test_ages() -> None:
    assert [seconds(age) for age in ("90d", "1.5h", "2 w")] == [90 * 86400, 5400, 14 * 86400]
    for age in ("90", "d", "-3d", "0d", "3m", ""):
        with pytest.raises(ConfigError, match=r"half_life is .*; expected a number above 0 with its unit"):
            StrengthOptions(half_life=age)


@pytest.mark.parametrize("unit", [1, 1000, 10**6, 10**9])
def test_weights_halve_with_each_half_life(unit: int) -> None:
    """Seconds, milli-, micro- and nanoseconds: 0, 10 and 20 days before the last one."""
    days = np.array([20_000, 19_990, 19_980])
    log = Interactions.from_csr([[4.0, 1.0, 1.0]])
    log = Interactions(log.matrix, log.users, log.items, time=days * 86400 * unit)
    np.testing.assert_allclose(faded(log, "10d").matrix.data, [4, 0.5, 0.25])


def test_a_part_fades_as_its_log_does() -> None:
    """Other users and items, and no times of its own; its own split too."""
    days = np.array([20_000, 19_990, 19_980, 19_970])
    log = Interactions.from_csr([[4.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    log = replace(log, time=days * 86400, parts={"train": log.matrix[:, :], "val": 0 * log.matrix})
    part = Interactions.from_csr(
        [[8.0]], users=log.users.take(np.array([1])), items=log.items.take(np.array([1]))
    )
    fading = Fading.of(log, "10d")
    np.testing.assert_allclose(fading(part).matrix.toarray(), [[2]])
    whole = fading(log)
    assert whole.parts is not None
    np.testing.assert_allclose(whole.parts["train"].toarray(), [[4, 0.5, 0], [0, 0.5, 0.125]])
    np.testing.assert_allclose(whole.matrix.toarray(), whole.parts["train"].toarray())


def test_nothing_fades_without_times() -> None:
    with pytest.raises(DataError, match="the log has no times"):
        faded(PLAYS, "90d")
    ranks = Interactions(PLAYS.matrix, PLAYS.users, PLAYS.items, time=np.array([1, 2, 3]))
    with pytest.raises(DataError, match="end at 3, which is no time since 1970"):
        faded(ranks, "90d")
