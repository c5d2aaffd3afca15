"""Dislikes beside a log: what they lower, what stays, and what is saved of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import infrec
from infrec import EASE, InfiniteAE, evaluate, holdout
from infrec.data import Interactions
from infrec.data.synthetic import generate
from infrec.errors import ArtifactError, DataError
from infrec.kernels import gram
from infrec.models import PopRec
from infrec.models import dislikes as module
from infrec.models.base import Recommender
from infrec.search.tune import TriedWeight, best_weight


@pytest.fixture(scope="module")
def log() -> Interactions:
    """Two tastes: who likes one half of the items dislikes some of the other half."""
    rng = np.random.default_rng(3)
    users, items = 120, 40
    taste = np.arange(users) % 2
    own = (np.arange(items)[None, :] % 2) == taste[:, None]
    likes = own & (rng.random((users, items)) < 0.5) | (rng.random((users, items)) < 0.15)
    said = ~likes & ~own & (rng.random((users, items)) < 0.5)
    return Interactions.from_csr(likes).with_dislikes(said.astype(np.float32))


def known(log: Interactions) -> sp.csr_array:
    assert log.dislikes is not None
    return log.dislikes.matrix


@pytest.mark.parametrize("kind", [InfiniteAE, EASE])
def test_they_lower_what_resembles_them(log: Interactions, kind: type[Recommender]) -> None:
    """Somebody with one like and many dislikes of a taste gets less of that taste."""
    rows = log.matrix[:20]
    users = log.users.take(np.arange(20))
    plain = kind(reg=5.0, dislikes=0.0).fit(log).score(rows, users=users)
    model = kind(reg=5.0, dislikes=1.0).fit(log)
    lower = plain - model.score(rows, users=users)
    other = (np.arange(log.n_items)[None, :] % 2) != (np.arange(20) % 2)[:, None]
    open_ = (rows + known(log)[:20]).toarray() == 0  # neither liked nor disliked by the user
    assert lower[other & open_].mean() > 3 * lower[~other & open_].mean() > 0
    strangers = plain - model.score(rows)  # their likes alone say something of what they dislike
    assert 0 < strangers[other & open_].mean() < lower[other & open_].mean()


@pytest.mark.parametrize("kind", [InfiniteAE, EASE, PopRec])
def test_nobody_is_recommended_what_they_dislike(log: Interactions, kind: type[Recommender]) -> None:
    model = kind().fit(log) if kind is not PopRec else _warned(log)
    for unseen in (True, False):
        lists = model.recommend(k=log.n_items, exclude_seen=unseen)
        at = log.users.positions(lists["user"]), log.items.positions(lists["item"])
        assert not known(log)[at].any()
        assert np.bincount(at[0])[0] == log.n_items - known(log)[[0]].nnz - unseen * log.matrix[[0]].nnz


def _warned(log: Interactions) -> Recommender:
    with pytest.warns(UserWarning, match="poprec learns nothing from dislikes"):
        return PopRec().fit(log)


def test_the_formula(log: Interactions) -> None:
    """β solves the ridge on signed rows; of the log's own users it is known without the kernel."""
    said = module.Dislikes.of(log)
    x = sp.csr_array(log.matrix - known(log))
    k = gram.kernel_matrix(module.KERNEL, x, dtype=np.float64)
    beta = np.linalg.solve(k + module.REG * np.trace(k) / len(k) * np.eye(len(k)), known(log).toarray())
    np.testing.assert_allclose(said.alpha, beta, atol=1e-5)
    rows = np.arange(0, 120, 7)
    np.testing.assert_allclose(said.score(log.matrix[rows], rows), (k @ beta)[rows], atol=1e-5)
    np.testing.assert_allclose(said.fitted_scores(rows), (k @ beta)[rows], atol=1e-5)


def test_few_centres_come_near(log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = module.Dislikes.of(log).score(log.matrix, np.arange(120))
    monkeypatch.setattr(module, "EXACT", 100)
    for centres, least in ((120, 0.99), (60, 0.8)):
        monkeypatch.setattr(module, "CENTRES", centres)
        few = module.Dislikes.of(log)
        assert len(few.users) == centres
        near = few.score(log.matrix, np.arange(120))
        assert np.corrcoef(near.ravel(), exact.ravel())[0, 1] > least


@pytest.mark.parametrize("user", [None, 8])
@pytest.mark.parametrize("model", ["exact", "nystrom"])
def test_reasons_add_up_to_scores(log: Interactions, model: str, user: int | None) -> None:
    """A history's items explain what lies above the baseline, which has what the user dislikes in it."""
    fitted = InfiniteAE(reg=5.0, dislikes=0.7, dtype="float64", solver=model, centres=60).fit(log)
    history = log.matrix[[8]]
    users = None if user is None else [user]
    scores = fitted.score(history, users=users)[0]
    bare = fitted.score(sp.csr_array(history.shape), users=users)[0]
    for item in (3, 6):
        told = fitted.explain(history.indices.tolist(), item, user=user)
        assert told.score == pytest.approx(scores[item], abs=1e-5)
        assert told.baseline == pytest.approx(bare[item], abs=1e-5)
        assert told.baseline + sum(told.items["contribution"]) == pytest.approx(told.score, abs=1e-6)
        by_users = pytest.approx(sum(told.users["contribution"]), abs=1e-9)
        assert (told.score == by_users) is (model == "exact")
    with pytest.raises(DataError, match="does not know the user 'nobody'"):
        fitted.explain([1], 3, user="nobody")


@pytest.mark.parametrize("kind", [InfiniteAE, EASE])
def test_saved_models_keep_them(log: Interactions, kind: type[Recommender], tmp_path: Path) -> None:
    model = kind(reg=5.0, dislikes=0.7).fit(log)
    model.save(tmp_path / "model")
    loaded = infrec.load(tmp_path / "model")
    assert loaded.selected == model.selected and loaded.selected["dislikes"] == 0.7
    assert (known(loaded.log) != known(log)).nnz == 0
    score = {"histories": log.matrix, "users": log.users.ids}
    np.testing.assert_allclose(loaded.score(**score), model.score(**score), atol=1e-6)
    assert loaded.recommend(k=5).table.equals(model.recommend(k=5).table) or np.allclose(
        loaded.recommend(k=5)["score"], model.recommend(k=5)["score"], atol=1e-6
    )


def test_the_weight_is_chosen_on_validation(log: Interactions) -> None:
    split = holdout(log)
    assert all(part.dislikes is not None and part.dislikes.n_interactions for part in _parts(split))
    model = InfiniteAE(reg=5.0).fit(split.train, validation=split.val)
    tried = [TriedWeight(**one) for one in model.about["dislikes"]]
    assert tried[0].weight == 0 and model.selected["dislikes"] == best_weight(tried).weight
    fixed = InfiniteAE(reg=5.0, dislikes=model.selected["dislikes"]).fit(split.train)
    np.testing.assert_allclose(
        model.score(split.train.matrix, users=log.users.ids),
        fixed.score(split.train.matrix, users=log.users.ids),
        atol=1e-6,
    )
    measured = evaluate(model, split).metrics
    plain = evaluate(model.with_dislikes(0.0), split).metrics
    assert 0 <= measured["disliked@10"] <= plain["disliked@10"]


def _parts(split: infrec.Split) -> tuple[Interactions, ...]:
    return split.train, split.val, split.test


@pytest.mark.parametrize(
    ("tried", "weight"),
    [
        ([(0, 30, 5), (0.5, 30.1, 4), (1, 29.9, 3)], 0.5),
        ([(0, 30, 5), (0.5, 29.9, 4)], 0),
        ([(0, 30, 5), (0.5, 30, 5)], 0),
    ],
)
def test_fewest_dislikes_where_likes_stand_no_lower(tried: list[tuple[float, ...]], weight: float) -> None:
    assert best_weight([TriedWeight(*one) for one in tried]).weight == weight


def test_without_validation_an_inner_holdout_decides(log: Interactions) -> None:
    model = InfiniteAE().fit(log)
    assert model.log.dislikes is not None and len(model.about["dislikes"]) > 1
    assert model.candidates and model.selected["reg"] != "auto"


def test_nothing_changes_without_dislikes() -> None:
    log = generate(users=60, items=30, interactions=900, seed=1)
    model = InfiniteAE(reg=5.0).fit(log)
    assert "dislikes" not in model.selected and "dislikes" not in model.about
    bare = log.with_dislikes(sp.csr_array(log.matrix.shape, dtype=np.float32))
    same = InfiniteAE().fit(bare)
    assert np.array_equal(same.score(log.matrix), InfiniteAE().fit(log).score(log.matrix))


@pytest.mark.parametrize("kind", [InfiniteAE, EASE])
def test_an_update_is_a_fit_on_everything(log: Interactions, kind: type[Recommender]) -> None:
    before = log.select_users(np.arange(100))
    model = kind(reg=5.0, dislikes=0.5).fit(before)
    model.update(log.select_users(np.arange(90, 120)))
    whole = kind(reg=5.0, dislikes=0.5).fit(log)
    score = {"histories": log.matrix, "users": log.users.ids}
    assert (known(model.log) != known(log)).nnz == 0
    np.testing.assert_allclose(model.score(**score), whole.score(**score), atol=1e-4)
    model.forget(log.users[3])
    left = np.delete(np.arange(120), 3)
    without = kind(reg=5.0, dislikes=0.5).fit(log.select_users(left))
    np.testing.assert_allclose(
        model.score(log.matrix[left], users=log.users.take(left)),
        without.score(log.matrix[left], users=log.users.take(left)),
        atol=1e-4,
    )


def test_a_like_of_what_is_disliked_is_refused(log: Interactions) -> None:
    with pytest.raises(DataError, match="liked and disliked at once, such as user 0 and item"):
        log.with_dislikes(log.matrix)
    model = EASE(reg=5.0).fit(log)
    turned = log.with_matrix(known(log))
    with pytest.raises(DataError, match="liked and disliked at once"):
        model.update(turned)
    assert model.log is log


def test_centres_alone_have_no_place_for_them(log: Interactions) -> None:
    model = InfiniteAE(reg=5.0, solver="nystrom", centres=30, dislikes=0.5).fit(log)
    with pytest.raises(DataError, match="no place for dislikes"):
        model.with_only_centres()


def test_the_service_recommends_none_of_them(log: Interactions) -> None:
    from infrec.serve.answers import explain, recommend
    from infrec.serve.schemas import ExplainRequest, RecommendRequest
    from infrec.serve.served_model import Served

    model = InfiniteAE(reg=5.0, dislikes=0.7).fit(log)
    served = Served("m", "0", model, "log")
    for users, length in (([3, 4, 5], 40), ([3], 7)):
        requests = [RecommendRequest(user=user, k=length, exclude_seen=False) for user in users]
        answers = [json.loads(one) for one in recommend(served, requests)]  # type: ignore[arg-type]
        for user, answer in zip(users, answers, strict=True):
            expected = model.recommend([user], k=length, exclude_seen=False)
            assert [row["item"] for row in answer["items"]] == list(expected["item"])
            assert not {row["item"] for row in answer["items"]} & set(known(log)[[user]].indices.tolist())
    answer = json.loads(recommend(served, [RecommendRequest(user=5, k=3, explain=1)])[0])  # type: ignore[arg-type]
    for row in answer["items"]:  # the reasons are those of the score that is in the list
        told = json.loads(explain(served, ExplainRequest(user=5, item=row["item"])))
        added = sum(one["contribution"] for one in told["items"])
        assert told["score"] == pytest.approx(row["score"], abs=1e-5)
        assert told["baseline"] + added == pytest.approx(row["score"], abs=1e-4)
        assert row["because"]["score"] == told["score"]
    stranger = json.loads(recommend(served, [RecommendRequest(history=[1, 3])])[0])  # type: ignore[arg-type]
    assert len(stranger["items"]) == 10


def test_the_service_says_whose_reasons_do_not_add_up() -> None:
    """Of few centres, users lack what dislikes take away (`test_reasons_add_up_to_scores`)."""
    from infrec.serve.schemas import Because

    words = Because.model_json_schema()["description"]
    assert "few centres (Nyström) what dislikes take away" in " ".join(words.split())


def test_a_saved_model_that_contradicts_itself_is_refused(log: Interactions, tmp_path: Path) -> None:
    model = EASE(reg=5.0, dislikes=0.5).fit(log)
    for number, change in enumerate(({"log": log.with_dislikes(None)}, {"settings": EASE(reg=5.0).settings})):
        path = tmp_path / str(number)
        model.with_fit(replace(model.fitted, **change)).save(path)
        with pytest.raises(ArtifactError, match="it foretells dislikes and has no"):
            infrec.load(path)
