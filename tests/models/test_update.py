"""Cheaper ways to a fit on everything, against that fit: closed forms that take in data or forget users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.data.strength import Strength
from infrec.data.synthetic import generate
from infrec.errors import ConfigError, DataError
from infrec.kernels import devices, ridge
from infrec.kernels.ridge_update import Solution
from infrec.models import EASE, InfiniteAE
from infrec.models.base import Recommender
from infrec.splits.holdout import keep, rows_of

USERS, KNOWN = 1200, 1160


@pytest.fixture(scope="module")
def everything() -> Interactions:
    return generate(users=USERS, items=90, interactions=20_000, seed=5)


@pytest.fixture(scope="module")
def before(everything: Interactions) -> Interactions:
    """Without the last 40 users and the last items of some others."""
    row = rows_of(everything.matrix)
    last = np.append(row[1:] != row[:-1], True)
    return keep(everything, ~(last & (row < 30))).select_users(np.arange(KNOWN))


@pytest.fixture
def no_fit(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Recommender]], None]:
    """From now on no model of that class can be fitted."""

    def refuse(kind: type[Recommender]) -> None:
        monkeypatch.setattr(kind, "path", lambda *_: pytest.fail("it was fitted again"))

    return refuse


def check_equal(model: Recommender, fresh: Recommender, log: Interactions) -> None:
    expected = fresh.score(log.matrix)
    np.testing.assert_allclose(model.score(log.matrix), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    lists, others = (np.array(one.recommend(k=10)["item"]) for one in (model, fresh))
    assert (lists == others).mean() > 0.99  # but for what float32 cannot tell apart


@pytest.mark.parametrize(("reg", "far_more"), [(0.5, 3), (5.0, 3), (5.0, 0.05)])
def test_exact(
    before: Interactions,
    everything: Interactions,
    reg: float,
    far_more: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ridge stays; λ is what it then is of the mean diagonal, within a hundredth.

    With few items enough (far_more), α is kept in two factors.
    """
    monkeypatch.setattr(devices, "_FAR_MORE", far_more)
    model = InfiniteAE(reg=reg).fit(before)
    with monkeypatch.context() as patch:
        patch.setattr(InfiniteAE, "path", lambda *_: pytest.fail("it was fitted again"))
        model.update(everything.select_users(np.arange(1100, 1180)))
        model.update(everything)
        assert model.about["reg_of_fit"] == reg
        updated = InfiniteAE().with_fit(model.fitted)
        model.forget(everything.users[7])
    assert 0 < abs(updated.selected["reg"] / reg - 1) < 0.01
    check_equal(updated, updated.with_settings().fit(everything), everything)
    without = everything.select_users(np.setdiff1d(np.arange(USERS), [7]))
    check_equal(model, model.with_settings().fit(without), everything)


def test_beyond_a_drift_of_lambda_it_is_fitted_again(before: Interactions) -> None:
    """40 users who have nearly everything: the mean diagonal grows by more than 2 %."""
    busy = Interactions.from_csr(
        np.random.default_rng(3).random((40, before.n_items)) < 0.9,
        users=[f"busy {n}" for n in range(40)],
        items=before.items.ids,
    )
    model = InfiniteAE(reg=5.0).fit(before)
    model.update(before.select_users(np.arange(1)), duplicates="sum")
    assert model.selected["reg"] != 5.0
    model.update(Interactions.from_csr(busy.matrix, users=range(10**6, 10**6 + 40), items=before.items.ids))
    assert model.selected["reg"] == 5.0
    assert "reg_of_fit" not in model.about


def test_rounding_is_seen_and_fitted_away(before: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanged rows that are a hundredth wrong: the equations of some users, or items, tell."""
    some = before.select_users(np.arange(3))
    exact, ease = InfiniteAE(reg=5.0).fit(before), EASE(reg=20.0).fit(before)
    follow, with_rows = Solution.exchange, ridge.with_rows

    def wrong(*arguments: Any) -> Solution:
        right = follow(*arguments)
        return Solution(right.inverse, right.alpha * np.float32(1.01), right.shift)

    monkeypatch.setattr(Solution, "exchange", wrong)
    monkeypatch.setattr(ridge, "with_rows", lambda *arguments: with_rows(*arguments) * np.float32(1.01))
    for model in (exact, ease):
        model.forget(some.users[0])
        check_equal(model, model.with_settings().fit(model.log), before)
    assert exact.selected["reg"] == 5.0


def test_few_centres(
    before: Interactions, everything: Interactions, no_fit: Callable[[type[Recommender]], None]
) -> None:
    model = InfiniteAE(reg=2.0, solver="nystrom", centres=50).fit(before)
    chosen = model.centres
    fresh = InfiniteAE(reg=2.0, centres=chosen)
    fits = [
        fresh.with_settings().fit(log)
        for log in (everything, everything.select_users(np.setdiff1d(np.arange(USERS), [1199])))
    ]
    no_fit(InfiniteAE)
    model.update(everything)
    check_equal(model, fits[0], everything)
    model.forget(everything.users[1199])
    check_equal(model, fits[1], everything)


def test_a_centre_who_is_forgotten_is_no_centre(before: Interactions) -> None:
    model = InfiniteAE(reg=2.0, solver="nystrom", centres=50).fit(before)
    who = model.centres.users[3]
    others = model.centres.select_users(np.setdiff1d(np.arange(50), [3]))
    model.forget(who)
    assert list(model.centres.users) == list(others.users)
    assert who not in list(model.log.users)
    check_equal(model, InfiniteAE(reg=2.0, centres=others).fit(model.log), before)


def test_ease(
    before: Interactions, everything: Interactions, no_fit: Callable[[type[Recommender]], None]
) -> None:
    """Up to 22 of 1,200 rows change at a time, 90 items; three items are new."""
    at = np.arange(3, 90)
    fewer = Interactions(before.matrix[:, at], before.users, type(before.items)(before.items.take(at)))
    model, fresh = EASE(reg=20.0).fit(fewer), EASE(reg=20.0).fit(everything)
    chunks = [everything.select_users(np.array(some)) for some in np.array_split(np.arange(USERS), 120)]
    no_fit(EASE)
    for chunk in chunks:
        model.update(chunk)
    check_equal(model, fresh, everything)
    model.forget(everything.users[1199]).update(everything.select_users(np.array([1199])))
    check_equal(model, fresh, everything)


def test_weights_are_kept_or_added(before: Interactions) -> None:
    some = before.select_users(np.arange(3))
    model = EASE(reg=20.0).fit(before)
    model.update(some)
    assert model.log.n_interactions == before.n_interactions and not model.log.weighted
    model.update(some, duplicates="sum")
    assert (model.log.matrix[:3].data == 2).all() and (model.log.matrix[3:].data == 1).all()


def test_new_weights_count_for_what_the_known_ones_do(before: Interactions) -> None:
    """A model says which function of weights it was fitted with; weights that fade cannot be added to."""
    plays = before.with_matrix(before.matrix * 3)
    log1p = Strength.of("log1p", plays)
    model = EASE(reg=20.0).fit(log1p(plays)).with_facts(weights=log1p.about)
    new = Interactions.from_csr([[8.0, 3.0]], users=[10**6], items=list(before.items)[:2])
    model.update(new)
    np.testing.assert_allclose(model.log.matrix[[-1]].data, np.log([9, 4]) / np.log(4), rtol=1e-5)
    faded = EASE(reg=20.0).fit(before).with_facts(half_life="90d")
    with pytest.raises(ConfigError, match=r"a half-life of 90d.*fit it again on everything"):
        faded.update(new)
    assert faded.forget(before.users[0]).log.n_users == before.n_users - 1


def test_settings_are_chosen_again_on_request(before: Interactions, everything: Interactions) -> None:
    model = EASE().fit(before)
    model.update(everything, choose_again=True)
    assert model.selected == EASE().fit(everything).selected
    assert len(model.candidates) == len(EASE.search_space["reg"])
    fixed = EASE(reg=3.0).fit(before)
    fixed.update(everything)
    assert fixed.selected == {"reg": 3.0}


def test_a_model_without_its_log_says_so(before: Interactions) -> None:
    model = InfiniteAE(reg=2.0, solver="nystrom", centres=50).fit(before).with_only_centres()
    with pytest.raises(DataError, match=r"holds 50 centres and not the log.*cannot be updated"):
        model.update(before)
    with pytest.raises(DataError, match="cannot be updated"):
        model.forget(before.users[0])


def test_a_model_of_a_summary_says_so(before: Interactions) -> None:
    from infrec.data import Summary

    model = EASE(reg=20.0).fit(Summary.of(before))
    with pytest.raises(DataError, match="a summary was given to take in"):
        EASE(reg=20.0).fit(before).update(Summary.of(before))
    with pytest.raises(DataError, match="fitted on a summary"):
        model.update(before)


def test_a_model_without_ids_says_so(before: Interactions) -> None:
    model = EASE(reg=20.0).fit(before).without_users()
    with pytest.raises(DataError, match="saved without user ids"):
        model.update(before)
