"""A summary carried on: the same size, the items of both, what each user weighs, and what it keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from infrec.data import Interactions, Summary
from infrec.distillation import DistillSettings, distill, objective, relaxations, update
from infrec.distillation.batches import UserBatches
from infrec.distillation.objective import Form
from infrec.errors import ConfigError, DataError
from infrec.models import InfiniteAE
from infrec.splits import hide
from infrec.splits.holdout import keep

pytestmark = pytest.mark.usefixtures("compiled_quickly")

QUICK = {"steps": 40, "validate_every": 10, "rate": 0.04}


@pytest.fixture(scope="module")
def halves(small_log: Interactions) -> tuple[Interactions, Interactions]:
    """Two groups of users each; the second half's users know 20 items that the first half has never seen."""
    early, late = (small_log.select_users(np.arange(at, at + 60)) for at in (0, 60))
    some = update.over(early, early.items)
    column = some.matrix.indices
    first = keep(some, column < 40)
    narrow = Interactions.from_csr(
        first.matrix[:, :40],
        users=early.users.ids,
        items=early.items.ids[:40],
        titles=[f"old {n}" for n in range(40)],
    )
    return narrow, late


@pytest.fixture(scope="module")
def old(halves: tuple[Interactions, Interactions]) -> Summary:
    return distill(halves[0], users=12, per_user=9, **QUICK)


@pytest.fixture(scope="module")
def new(halves: tuple[Interactions, Interactions], old: Summary) -> Summary:
    return distill(halves[1], previous=old)


def test_the_size_stays_and_items_are_those_of_both(
    halves: tuple[Interactions, Interactions], old: Summary, new: Summary
) -> None:
    assert (new.n_users, new.n_interactions) == (old.n_users, old.n_interactions) == (12, 108)
    assert new.items == halves[1].items and (old.n_items, new.n_items) == (40, 60)
    assert new.titles is not None and new.titles[0].as_py() == "Item 0"
    about = new.about
    assert (about["mode"], about["start"], about["first_start"]) == ("weighted", "summary", "popularity")
    assert (about["represents"], about["periods"]) == (120, 2)
    assert about["settings"]["steps"] == 40  # its settings stay as well
    assert new.matrix[:, 40:].nnz > 0


def test_it_knows_the_past_and_the_new(
    halves: tuple[Interactions, Interactions], old: Summary, new: Summary
) -> None:
    """Hidden items of both halves: neither is foreseen as well by a summary of the other one."""

    def quality(summary: Interactions, log: Interactions) -> float:
        shown, hidden = hide(update.over(log, new.items), seed=3)
        model = InfiniteAE(reg=1.0).fit(update.over(summary, new.items))
        scores = model.score(shown.matrix) - 1e6 * (shown.matrix.toarray() > 0)
        best = np.argsort(-scores, axis=1)[:, :10]
        found = np.take_along_axis(hidden.matrix.toarray(), best, axis=1).sum()
        return float(found / hidden.n_interactions)

    alone = distill(halves[1], users=12, per_user=9, **QUICK)
    assert quality(new, halves[0]) > quality(alone, halves[0]) + 0.1
    assert quality(new, halves[1]) > quality(old, halves[1]) + 0.1
    assert quality(new, halves[1]) > 0.6 * quality(alone, halves[1])


def test_it_is_carried_on_again_after_saving(
    halves: tuple[Interactions, Interactions], new: Summary, tmp_path: Path
) -> None:
    new.save(tmp_path / "s")
    again = distill(halves[1], previous=Summary.load(tmp_path / "s"), steps=2, validate_every=1)
    assert (again.about["represents"], again.about["periods"]) == (180, 3)
    assert again.n_interactions == new.n_interactions


# ---- what it is made of ------------------------------------------------------------------------------------
def test_a_weight_of_three_is_the_same_user_three_times(small_log: Interactions) -> None:
    few = small_log.matrix[:5]
    weights = np.array([3, 1, 1, 2, 1], np.float32)
    usual = {"batch": None, "seed": 0, "on_gpu": False}
    heavy = UserBatches(few, weights=weights, **usual).at(0)  # type: ignore[arg-type]
    repeated = UserBatches(few[np.repeat(np.arange(5), weights.astype(int))], **usual).at(0)  # type: ignore[arg-type]
    x_hat = np.minimum(small_log.matrix[20:26].toarray(), 1.0)
    total = jax.jit(objective.total, static_argnames="form")
    key, form = jax.numpy.zeros(2, np.uint32), Form("standardised")
    losses = [float(total(x_hat, 1.0, users, key, form=form)) for users in (heavy, repeated)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert float(heavy.total) == 8


def test_rounding_up_a_block_changes_nothing(small_log: Interactions) -> None:
    rows = small_log.matrix[np.arange(70) % 60]
    usual = {"batch": None, "seed": 0, "on_gpu": False}
    users = UserBatches(rows, **usual).at(0)  # type: ignore[arg-type]
    assert users.x.shape == (1, 128, 60) and float(users.total) == float(users.weight.sum()) == 70


@pytest.mark.parametrize("mode", ["discrete", "weighted", "soft"])
def test_it_starts_where_the_old_one_ended(mode: str) -> None:
    rng = np.random.default_rng(0)
    config = DistillSettings.of(mode, users=6)
    if mode == "discrete":
        before = np.zeros((6, 30))
        before[:, :7] = rng.permuted(np.eye(6, 7) + 1, axis=1) > 0
    elif mode == "weighted":
        config = replace(config, mass=2.0, start_noise=0.0)
        before = np.asarray(relaxations.weighted(3 * rng.normal(size=(6, 30)), np.int32(42), config.tau, 2.0))
        assert (before > 0).sum() == 42
        before = before[np.argsort((before > 0).sum(axis=1), kind="stable")]  # small rows stand first
    else:
        before = np.asarray(relaxations.soft(3 * rng.normal(size=(6, 30)), config.tau, 8.0))
    matrix = Interactions.from_csr(before).matrix
    past = update.Past(matrix, 10.0, 60, 1, "popularity")
    logits = past.logits(config, np.random.default_rng(1))
    if mode == "discrete":
        again = relaxations.top_mask(logits, np.diff(matrix.indptr))
        np.testing.assert_array_equal(again, before)
    elif mode == "weighted":
        again = np.asarray(relaxations.weighted(logits, np.int32(42), config.tau, 2.0))
        np.testing.assert_allclose(again, before, rtol=1e-5)
    else:  # entries that were cut off at 1 may have been larger
        again = np.asarray(relaxations.soft(logits, config.tau, before.sum(axis=1, keepdims=True)))
        np.testing.assert_allclose(again, before, rtol=1e-3)


# ---- items -------------------------------------------------------------------------------------------------
def test_numbers_and_texts_meet_as_texts() -> None:
    one = Interactions.from_csr(np.eye(3), items=[1, 2, 10], titles=["one", "two", "ten"])
    other = Interactions.from_csr(np.eye(2), items=["2", "x"], titles=["II", "X"])
    items = update.joined(one, other)
    assert items.ids.to_pylist() == ["1", "10", "2", "x"]
    moved = update.over(one, items, other)
    np.testing.assert_array_equal(moved.matrix.toarray(), [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]])
    assert moved.titles is not None and moved.titles.to_pylist() == ["one", "ten", "two", "X"]


def test_without_new_items_the_vocabulary_stays(old: Summary) -> None:
    log = Interactions.from_csr(np.eye(2), items=["i03", "i01"])
    assert update.joined(old, log) == old.items


# ---- asking wrongly ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"users": 20}, "users is given, but a summary is continued within its size .12 users, 108"),
        ({"total": 20}, "total is given"),
        ({"target": 0.9}, "target is given"),
        ({"mode": "soft"}, "mode is 'soft', but the summary to continue is 'weighted'"),
        ({"speed": 1}, "distill has no setting 'speed'"),
        ({"settings": DistillSettings()}, "settings and previous are both given"),
    ],
)
def test_bad_settings(old: Summary, small_log: Interactions, asked: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        distill(small_log, previous=old, **asked)


def test_what_cannot_be_continued(old: Summary, small_log: Interactions) -> None:
    with pytest.raises(ConfigError, match="the sample to continue does not tell how it was distilled"):
        distill(small_log, previous=Summary.of(small_log, kind="sample"))
    with pytest.raises(DataError, match="none of the summary's 40 items is among the 3 of the new data"):
        distill(Interactions.from_csr(np.ones((3, 3)), items=["a", "b", "c"]), previous=old)
    another = Interactions.from_csr(
        np.ones((3, 11)), items=[*map(str, range(1000, 1010)), old.items.ids[0].as_py()]
    )
    with pytest.raises(DataError, match=r"only 3 of the 33 interactions .* \(1 of its 40 items\)"):
        distill(another, previous=old)
    with pytest.raises(ConfigError, match="start is 'summary', but there is none to continue"):
        distill(small_log, users=5, start="summary")
