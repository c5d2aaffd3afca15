"""top_k is a stable sort of what is allowed, only faster; every ranking metric is worked by hand under each
protocol, and compared with trec_eval where definitions agree."""

from __future__ import annotations

from math import log, log2

import ir_measures
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.errors import ConfigError, SolveError
from infrec.metrics import hit_rate_at, hits, inverse_propensity, ranking_metrics, top_k, truncated_recall
from infrec.metrics.ranking import ndcg, recall, truncated_ndcg


def by_sorting(scores: np.ndarray, k: int, forbidden: np.ndarray) -> np.ndarray:
    """The definition: a stable sort, forbidden items dropped, −1 to fill up."""
    out = np.full((len(scores), k), -1)
    for row, (values, no) in enumerate(zip(scores, forbidden, strict=True)):
        order = [item for item in np.argsort(-values, kind="stable").tolist() if not no[item]][:k]
        out[row, : len(order)] = order
    return out


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 90),
    st.integers(1, 100),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["constant", "three values", "signed zeros", "distinct"]),
)
@settings(deadline=None, max_examples=200)
def test_top_k_is_a_stable_sort(seed: int, items: int, k: int, dtype: type, kind: str) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((9, items)).astype(dtype)
    if kind == "constant":
        scores[:] = 1.5
    elif kind == "three values":
        scores = np.sign(scores) * (rng.random(scores.shape) < 0.6)
    elif kind == "signed zeros":
        scores = np.where(scores > 0, 0.0, -0.0).astype(dtype)
    seen = rng.random((9, items)) < rng.random((9, 1))
    only = rng.random(items) < 0.7
    got = top_k(scores, k, exclude=sp.csr_array(seen), only=only)
    np.testing.assert_array_equal(got, by_sorting(scores, k, seen | ~only))


def test_many_items_and_many_blocks() -> None:
    """Wide enough for groups of columns with some left over, long enough for more than one block of rows."""
    rng = np.random.default_rng(1)
    scores = np.round(rng.standard_normal((700, 1237)), 2).astype(np.float32)
    seen = rng.random(scores.shape) < 0.1
    for k in (1, 10, 100, 1237):
        got = top_k(scores, k, exclude=sp.csr_array(seen))
        np.testing.assert_array_equal(got, by_sorting(scores, k, seen))


def test_extreme_scores_are_still_scores() -> None:
    most = np.finfo(np.float32).max
    scores = np.array([[-most, 0, most, -most]], np.float32)
    np.testing.assert_array_equal(top_k(scores, 4), [[2, 1, 0, 3]])


def test_whole_numbers_that_float32_cannot_tell_apart() -> None:
    assert top_k(np.array([[2**24, 2**24 + 1, 5]]), 3).tolist() == [[1, 0, 2]]


def test_the_scores_are_left_alone() -> None:
    scores = np.arange(12, dtype=np.float32).reshape(3, 4)
    before = scores.copy()
    top_k(scores, 2, exclude=sp.csr_array(np.eye(3, 4)))
    np.testing.assert_array_equal(scores, before)


def test_a_weight_masks_like_any_other() -> None:
    assert top_k(np.array([[3.0, 2.0]]), 1, exclude=sp.csr_array([[7.0, 0.0]])).tolist() == [[1]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused_even_where_masked(bad: float) -> None:
    scores = np.zeros((3, 5), np.float32)
    scores[1, 2] = bad
    with pytest.raises(SolveError, match="1 of 3 users"):
        top_k(scores, 2, exclude=sp.csr_array(np.ones((3, 5))))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="k is 0"):
        top_k(np.zeros((1, 3)), 0)
    with pytest.raises(ConfigError, match="expected equal"):
        top_k(np.zeros((1, 3)), 1, exclude=sp.csr_array((2, 3)))


def test_no_users_no_lists() -> None:
    assert top_k(np.zeros((0, 5), np.float32), 3).shape == (0, 3)


def test_hits_know_padding_from_the_last_item() -> None:
    held_out = sp.csr_array(np.array([[0, 0, 1], [1, 0, 0]]))
    np.testing.assert_array_equal(
        hits(np.array([[2, -1], [-1, 0]]), held_out), [[True, False], [False, True]]
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.floats(0, 0.4))
@settings(deadline=None, max_examples=60)
def test_hit_rate_at_is_truncated_recall(seed: int, k: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.standard_normal((20, 50)), 1).astype(np.float32)
    seen = sp.csr_array(rng.random(scores.shape) < 0.2)
    held_out = sp.csr_array(rng.random(scores.shape) < share * rng.random((20, 1)))
    expected = truncated_recall(hits(top_k(scores, k, exclude=seen), held_out), np.diff(held_out.indptr))
    np.testing.assert_array_equal(hit_rate_at(scores, seen, held_out, k), expected)


# Three users over six items, lists of two. User 0: items 1, 2, 3 held out, list (1, 5): a hit at rank 1.
# User 1: item 0 held out, list (4, 0): a hit at rank 2. User 2: nothing held out.
TOP = np.array([[1, 5], [4, 0], [3, 4]])
HELD_OUT = sp.csr_array(np.array([[0, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]))
HELD = np.diff(HELD_OUT.indptr)
COUNTS = np.array([10, 4, 2, 1, 0, 3])  # N = 20
SECOND = 1 / log2(3)  # what a hit at rank 2 is worth


def test_hit_rate_by_hand() -> None:
    hit = hits(TOP, HELD_OUT)
    np.testing.assert_allclose(truncated_recall(hit, HELD), [1 / 2, 1, 0])
    np.testing.assert_allclose(recall(hit, HELD), [1 / 3, 1, 0])


def test_ndcg_by_hand() -> None:
    hit = hits(TOP, HELD_OUT)
    np.testing.assert_allclose(truncated_ndcg(hit, HELD), [1 / (1 + SECOND), SECOND, 0])
    np.testing.assert_allclose(ndcg(hit, HELD), [1 / (1 + SECOND + 1 / 2), SECOND, 0])  # 1/log2(4) = 1/2


def weight(n: int) -> float:
    return 1 + (log(20) - 1) * 2.5**0.55 * (n + 1.5) ** -0.55


def test_inverse_propensity_by_hand() -> None:
    np.testing.assert_allclose(inverse_propensity(COUNTS), [weight(n) for n in COUNTS])
    assert weight(1) == pytest.approx(log(20))  # (n + b) = (b + 1): the two powers cancel
    assert (inverse_propensity(np.array([0, 1])) == 1).all()  # ln 1 − 1 < 0: never below 1


def test_psp_by_hand() -> None:
    weights = inverse_propensity(COUNTS)
    code = ranking_metrics(TOP, HELD_OUT, weights, k=[2], protocol="paper-code")["PSP@2"]
    # min(|T|, k) = 2, and the two rarest of items 1, 2, 3 have the counts 2 and 1.
    np.testing.assert_allclose(code, [weight(4) / 2 / (weight(2) + weight(1)), 1, 0])
    book = ranking_metrics(TOP, HELD_OUT, weights, k=[2], protocol="textbook")["PSP@2"]
    np.testing.assert_allclose(book, [weight(4) / 2 / (weight(4) + weight(2) + weight(1)), 1 / 2, 0])


def test_a_perfect_list_scores_one_except_in_the_published_psp() -> None:
    held_out = sp.csr_array(np.array([[1, 1, 1, 1, 0, 0]]))
    top = np.array([[3, 2, 1, 0, 4]])
    code = ranking_metrics(top, held_out, inverse_propensity(COUNTS), k=[5])
    np.testing.assert_allclose([code["HR@5"][0], code["NDCG@5"][0], code["PSP@5"][0]], [1, 1, 1 / 4])


def test_protocols_share_names_and_choose_definitions() -> None:
    weights = inverse_propensity(COUNTS)
    code, book = (
        ranking_metrics(TOP, HELD_OUT, weights, k=[1, 2], protocol=p) for p in ("paper-code", "textbook")
    )
    assert list(code) == list(book) == ["HR@1", "NDCG@1", "PSP@1", "HR@2", "NDCG@2", "PSP@2"]
    assert code["HR@1"][0] == 1 and book["HR@1"][0] == pytest.approx(1 / 3)
    graph = ranking_metrics(TOP, HELD_OUT, weights, k=[2], protocol="graph")
    np.testing.assert_allclose(graph["Recall@2"], [1 / 3, 1, 0])  # over |T| = 3, 1 …
    np.testing.assert_allclose(graph["NDCG@2"], [1 / (1 + SECOND), SECOND, 0])  # … but an ideal list of two
    with pytest.raises(ConfigError, match="paper-code, textbook, graph"):
        ranking_metrics(TOP, HELD_OUT, weights, protocol="paper")
    with pytest.raises(ConfigError, match="at least k = 10"):
        ranking_metrics(TOP, HELD_OUT, weights)


def test_against_trec_eval() -> None:
    """ir_measures' nDCG@k is the truncated one; its R@k is recall."""
    rng = np.random.default_rng(5)
    scores = rng.random((40, 30))
    held_out = sp.csr_array(rng.random((40, 30)) < 0.15)
    held = np.diff(held_out.indptr)
    users = np.flatnonzero(held)  # trec_eval leaves the others out
    coo = held_out.tocoo()
    qrels = [
        ir_measures.Qrel(str(u), str(i), 1) for u, i in zip(coo.row.tolist(), coo.col.tolist(), strict=True)
    ]
    run = [ir_measures.ScoredDoc(str(u), str(i), float(scores[u, i])) for u in users for i in range(30)]
    wanted = [ir_measures.nDCG @ 10, ir_measures.R @ 10, ir_measures.nDCG @ 3, ir_measures.R @ 3]
    theirs = {(str(m.measure), int(m.query_id)): m.value for m in ir_measures.iter_calc(wanted, qrels, run)}
    for k in (3, 10):
        hit = hits(top_k(scores, k), held_out)
        expected = [(theirs[f"nDCG@{k}", u], theirs[f"R@{k}", u]) for u in users.tolist()]
        np.testing.assert_allclose(truncated_ndcg(hit, held)[users], [pair[0] for pair in expected])
        np.testing.assert_allclose(recall(hit, held)[users], [pair[1] for pair in expected])
