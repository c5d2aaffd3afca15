"""Models whose numbers are known before they are measured, and theorems about batches, masks and means."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import ConfigError, DataError, SolveError
from infrec.evaluation import evaluate
from infrec.evaluation.evaluate import memory_needed
from infrec.models import PopRec
from infrec.splits import Split, holdout


class Fixed:
    """Scores by the user's number, whatever the history; remembers what it was asked."""

    def __init__(self, scores: Any) -> None:
        self.scores, self.asked = np.asarray(scores, np.float32), []

    def score(self, histories: sp.csr_array, *, users: Any = None) -> np.ndarray:
        self.asked.append(histories)
        names = [int(str(user).lstrip("u")) for user in users.to_pylist()]
        return self.scores[names]


def split_of(train: Any, val: Any, test: Any) -> Split:
    return Split(
        *(Interactions.from_csr(np.asarray(part, np.float32)) for part in (train, val, test)), name="toy"
    )


@pytest.fixture
def split(small_log: Interactions) -> Split:
    return holdout(small_log)


def everybodys(split: Split, part: sp.csr_array) -> np.ndarray:
    """Rows by the number in the user's name, for `Fixed`."""
    names = [int(name[1:]) for name in split.train.users.ids.to_pylist()]
    out = np.zeros((120, split.train.n_items), np.float32)
    out[names] = part.toarray()
    return out


@pytest.mark.parametrize("protocol", ["paper-code", "textbook"])
def test_an_oracle_gets_everything(split: Split, protocol: str) -> None:
    result = evaluate(Fixed(everybodys(split, split.test.matrix)), split, protocol=protocol, k=(10, 60))
    for name in ("HR@60", "NDCG@60") + (("HR@10", "NDCG@10") if protocol == "paper-code" else ()):
        assert result.metrics[name] == pytest.approx(100)
    assert result.metrics["AUC"] == 1
    assert result.n_users == split.train.n_users and result.protocol == protocol


def test_its_opposite_gets_nothing(split: Split) -> None:
    result = evaluate(Fixed(-everybodys(split, split.test.matrix)), split, k=(10,))
    assert result.metrics["HR@10"] == result.metrics["NDCG@10"] == result.metrics["PSP@10"] == 0
    assert result.metrics["AUC"] == 0


def test_chance_gets_what_chance_should(split: Split) -> None:
    """AUC of random scores: 0.5 within 4 of its own standard errors (interval / 3.92)."""
    scores = np.random.default_rng(0).random((120, 60))
    result = evaluate(Fixed(scores), split)
    low, high = result.intervals["AUC"]
    assert low < result.metrics["AUC"] < high
    assert abs(result.metrics["AUC"] - 0.5) < 4 * (high - low) / 3.92


def test_worked_by_hand() -> None:
    split = split_of(
        [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]],
        [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0]],
        [[0, 0, 1, 1, 0], [0, 1, 0, 0, 0]],
    )
    # User 0 knows 0 and 1 and is shown 4, 3 (a hit at rank 2); user 1 knows 4 and is shown 0, 1 (the same).
    scores = [[9, 8, 1, 2, 3], [5, 4, 3, 2, 9]]
    result = evaluate(Fixed(scores), split, k=(2,), intervals=False)
    second = 1 / np.log2(3)
    np.testing.assert_allclose(result.per_user["HR@2"], [50, 100])
    np.testing.assert_allclose(result.per_user["NDCG@2"], [100 * second / (1 + second), 100 * second])
    # Positives 1, 2, 4. Negatives (all that are free, validation too): 8, 3 of user 0; 5, 3, 2 of user 1.
    # 1 beats none; 2 ties with 2; 4 beats 3, 3 and 2: 3.5 of 15 pairs.
    assert result.metrics["AUC"] == pytest.approx(3.5 / 15)
    assert result.metrics["coverage@2"] == pytest.approx(80)
    assert result.intervals == {}
    book = evaluate(Fixed(scores), split, k=(2,), protocol="textbook")
    # User 0: 1 and 2 against 3 alone (what is in the context is no negative). User 1: 4 against 5, 3, 2.
    np.testing.assert_allclose(book.per_user["AUC"], [0, 2 / 3])
    np.testing.assert_allclose(book.per_user["HR@2"], [50, 100])


def test_users_with_nothing_held_out_count_as_zero_or_not_at_all() -> None:
    split = split_of([[1, 0, 0], [1, 0, 0]], np.zeros((2, 3)), [[0, 0, 0], [0, 1, 0]])
    model = Fixed([[0, 2, 1], [0, 1, 2]])  # item 1 is first for user 0, second for user 1
    result = evaluate(model, split, k=(2,))
    assert result.metrics["HR@2"] == 50
    graph = evaluate(model, split, k=(2,), protocol="graph")
    assert (graph.n_users, graph.metrics["Recall@2"]) == (1, 100)
    assert graph.metrics["NDCG@2"] == pytest.approx(100 / np.log2(3))


def test_graph_recall_is_over_all_that_is_held_out() -> None:
    """25 items held out, 20 listed, the first 10 of them hits: recall 10/25, the ideal list is 20 long."""
    train, test = np.zeros((1, 60)), np.zeros((1, 60))
    train[0, 59] = test[0, :10] = test[0, 30:45] = 1
    result = evaluate(Fixed(-np.arange(60.0)[None]), split_of(train, 0 * train, test), protocol="graph")
    assert result.k == (20,)
    assert result.metrics["Recall@20"] == pytest.approx(40)
    gains = 1 / np.log2(np.arange(2, 22))
    assert result.metrics["NDCG@20"] == pytest.approx(100 * gains[:10].sum() / gains.sum())


def test_a_test_item_that_is_also_known_cannot_be_hit_but_stays_in_the_denominator() -> None:
    split = split_of([[1, 0, 0]], np.zeros((1, 3)), [[1, 1, 0]])
    result = evaluate(Fixed([[3, 2, 1]]), split, k=(2,))
    assert result.metrics["HR@2"] == 50


@pytest.mark.parametrize("protocol", ["paper-code", "textbook", "graph"])
def test_batches_do_not_matter(split: Split, protocol: str) -> None:
    model = Fixed(np.round(np.random.default_rng(1).random((120, 60)), 1))
    whole, batched = (evaluate(model, split, protocol=protocol, k=(3, 10), batch=b) for b in (None, 7))
    assert whole.metrics == batched.metrics and whole.intervals == batched.intervals
    for name, values in whole.per_user.items():
        np.testing.assert_array_equal(values, batched.per_user[name])


def test_metrics_are_the_means_of_per_user_values(split: Split) -> None:
    result = evaluate(Fixed(np.random.default_rng(2).random((120, 60))), split)
    for name, values in result.contributions.items():
        assert len(values) == split.train.n_users
        assert result.metrics[name] == pytest.approx(values.mean())
        assert result.intervals[name][0] <= result.metrics[name] <= result.intervals[name][1]
    wanted = {
        "AUC",
        "HR@10",
        "HR@100",
        "NDCG@10",
        "NDCG@100",
        "PSP@10",
        "PSP@100",
        "coverage@10",
        "novelty@10",
    }
    assert wanted <= set(result.metrics)
    assert all(np.isfinite(value) for value in result.metrics.values())


def test_the_context_is_train_and_validation_and_is_never_recommended(split: Split) -> None:
    model = Fixed(everybodys(split, split.test_context) + 1)  # prefers what is known
    evaluate(model, split, k=(10,), batch=50)
    asked = sp.vstack(model.asked)
    np.testing.assert_array_equal(asked.toarray() > 0, (split.train.matrix + split.val.matrix).toarray() > 0)
    known_to_all = split_of([[1, 0, 0]] * 4, np.zeros((4, 3)), [[0, 1, 0]] * 4)
    assert evaluate(Fixed([[9, 1, 0]] * 4), known_to_all, k=(3,)).exposure[3].tolist() == [0, 4, 4]


def test_weights_change_nothing_but_what_the_model_sees(split: Split) -> None:
    tripled = Split(
        *(part.with_matrix(part.matrix * 3) for part in (split.train, split.val, split.test)), name="x"
    )
    model = Fixed(np.random.default_rng(3).random((120, 60)))
    assert evaluate(model, split).metrics == evaluate(model, tripled).metrics


def test_the_seed_draws_the_negatives_and_nothing_else(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["infrec.evaluation.tally"], "NEGATIVES", 5)
    model = Fixed(np.random.default_rng(4).random((120, 60)))
    one, again, other = (evaluate(model, split, seed=seed, intervals=False).metrics for seed in (1, 1, 2))
    assert one == again
    assert {name for name in one if one[name] != other[name]} == {"AUC"}


def test_bad_models_and_splits_are_refused(split: Split) -> None:
    scores = np.zeros((120, 60))
    with pytest.raises(ConfigError, match="expected one of paper-code, textbook, graph"):
        evaluate(Fixed(scores), split, protocol="code")
    with pytest.raises(ConfigError, match="same items"):
        evaluate(Fixed(scores[:, :-1]), split)
    with pytest.raises(ConfigError, match="list lengths"):
        evaluate(Fixed(scores), split, k=())
    with pytest.raises(ConfigError, match="batch is -1"):
        evaluate(Fixed(scores), split, batch=-1)
    scores[5, 5] = np.nan
    with pytest.raises(SolveError, match="NaN"):
        evaluate(Fixed(scores), split)
    with pytest.raises(DataError, match="nothing is held out"):
        evaluate(Fixed(scores), Split(split.train, split.val, split.train.with_matrix(0 * split.test.matrix)))


def test_a_model_over_other_items_is_refused(split: Split) -> None:
    backwards = Interactions.from_csr(
        split.train.matrix[:, ::-1], users=split.train.users.ids, items=split.train.items.ids[::-1]
    )
    with pytest.raises(
        DataError, match="fitted over other items than the split's, or over the same in another"
    ):
        evaluate(PopRec().fit(backwards), split)
    evaluate(PopRec().fit(backwards.align_items(split.train.items)), split, intervals=False)


def test_an_evaluation_holds_a_few_hundred_bytes_per_user() -> None:
    one, two = (memory_needed(n, 17_000, 10 * n) for n in (1_000_000, 2_000_000))
    assert 500 < (two - one) / 1e6 < 1000
