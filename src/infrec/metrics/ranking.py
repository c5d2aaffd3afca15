"""From scores to lists of the k best items of each user; and how good these are: HR, NDCG, PSP by protocol.

How `top_k` is fast. Sorting whole rows is wasted work, and so is an exact partition of them. Each row is cut
into groups of columns; the k-th largest of the groups' maxima is a lower bound of the row's k-th largest
score, because k different items reach it. Few more than k items pass that bound, and only those are sorted.
Rows are taken in blocks that stay in a core's cache. (A second thread gains nothing: gathering the few
candidates holds the interpreter.)

Protocols. `paper-code` computes what the authors' public code computes, which is where the published numbers
come from; `textbook` is the paper's appendix on metrics, taken literally. They share names, not values.
`graph` is what graph recommenders report (LightGCN's code and those after it): Recall@20 over |T|, and
NDCG@20 whose ideal list is no longer than 20, over the users with something held out; all else is as in
`textbook`.

Everywhere: hit is bool [n, k], whether the item at each rank was held out, from `hits`; held is int [n], |T|,
how many items were held out for each user. Values are per user, in 0…1; users with nothing held out are 0,
and count in means, except under `graph`, which leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from infrec.errors import ConfigError, SolveError

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

Scores: TypeAlias = "NDArray[np.floating[Any]]"

_BLOCK_ENTRIES = 1 << 19  # scores of one block: 2 MB in float32
_PAST_THE_END = np.uint64(np.iinfo(np.uint64).max)


def top_k(
    scores: Scores, k: int, *, exclude: sp.csr_array | None = None, only: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """The k items with the highest scores of each row, best first; equal scores in the order of the items.

    Returns [n, k] columns; −1 where a row has fewer than k items left.

    Args:
        scores: [n, items], finite, or `SolveError`.
        k: Length of the lists.
        exclude: CSR [n, items]; its stored entries never appear, whatever their value.
        only: bool [items]; nothing else appears.
    """
    scores = _checked(scores, k, exclude)
    n, items = scores.shape
    out = np.full((n, k), -1, np.int64)
    step = max(8, _BLOCK_ENTRIES // max(1, items))
    buffer = np.empty((min(step, n), items), scores.dtype)
    for start in range(0, n, step):
        stop = min(n, start + step)
        best = _best(_masked(scores, start, stop, buffer[: stop - start], exclude, only), k)
        out[start:stop, : best.shape[1]] = best
    return out


def hit_rate_at(
    scores: Scores, exclude: sp.csr_array | None, held_out: sp.csr_array, k: int
) -> NDArray[np.float64]:
    """HR@k of each row, for choosing settings: `truncated_recall` of `top_k`, the cheap way.

    Values lie in 0…1; rows without a held-out item are 0. The paper chooses by the mean of this at k = 100.

    Args:
        scores: [n, items].
        exclude: CSR [n, items]; its stored entries never appear.
        held_out: The items of T, CSR [n, items].
        k: Length of the lists.
    """
    held = np.diff(held_out.indptr)
    rows = np.flatnonzero(held)
    out = np.zeros(len(held))
    if 2 * len(rows) > len(held):  # copying the others' scores away would cost more than ranking them
        rows = np.arange(len(held))
    else:
        scores, held_out = scores[rows], held_out[rows]
        exclude = None if exclude is None else exclude[rows]
    n_hits = hits(top_k(scores, k, exclude=exclude), held_out).sum(axis=1)
    out[rows] = n_hits / np.clip(held[rows], 1, k)
    return out


def hits(top: NDArray[np.integer], held_out: sp.csr_array) -> NDArray[np.bool_]:
    """Whether each recommended item was held out for its user: [n, k] from `top_k`'s list.

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        held_out: The items of T, CSR [n, items].
    """
    n, items = held_out.shape
    out = np.zeros(top.shape, bool)
    step = max(1, 4 * _BLOCK_ENTRIES // (items + 1))  # a byte per entry here, four in the scores
    for start in range(0, n, step):
        stop = min(n, start + step)
        # One more column, always False, is where the padding −1 points.
        wanted = np.zeros((stop - start, items + 1), bool)
        wanted.ravel()[flat_positions(held_out, start, stop, items + 1)] = True
        out[start:stop] = np.take_along_axis(wanted, top[start:stop], axis=1)
    return out


def _checked(scores: Scores, k: int, exclude: sp.csr_array | None) -> Scores:
    if k < 1:
        raise ConfigError(f"k is {k}; expected a list length of 1 or more.")
    scores = np.asarray(scores)
    if exclude is not None and exclude.shape != scores.shape:
        raise ConfigError(
            f"the scores are {scores.shape}, but what to exclude is {exclude.shape}; expected equal."
        )
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)


def _masked(
    scores: Scores,
    start: int,
    stop: int,
    work: Scores,
    exclude: sp.csr_array | None,
    only: NDArray[np.bool_] | None,
) -> Scores:
    """The rows start…stop in `work`, with −inf wherever nothing may be recommended."""
    np.copyto(work, scores[start:stop])
    finite = np.isfinite(work)
    if not finite.all():
        bad = int(np.count_nonzero(~finite.all(axis=1)))
        raise SolveError(
            f"the scores of {bad} of {stop - start} users in a block are NaN or infinite; expected finite "
            "numbers: the fit has failed, so use a larger reg or dtype float64."
        )
    if only is not None:
        work[:, ~only] = -np.inf
    if exclude is not None:
        work.ravel()[flat_positions(exclude, start, stop, work.shape[1])] = -np.inf
    return work


def flat_positions(matrix: sp.csr_array, start: int, stop: int, width: int) -> NDArray[np.int64]:
    """Where the stored entries of rows start…stop lie in a flattened array of `width` columns."""
    lengths = np.diff(matrix.indptr[start : stop + 1])
    begin = np.repeat(np.arange(stop - start, dtype=np.int64) * width, lengths)
    return begin + matrix.indices[matrix.indptr[start] : matrix.indptr[stop]]


def _best(work: Scores, k: int) -> NDArray[np.int64]:
    """The best columns of each row, [n, ≤ k], −1 after the last one; −inf entries are never taken."""
    n, items = work.shape
    size = int(np.clip(items // (4 * k), 1, 16))
    groups = items // size
    bound = np.full(n, np.finfo(work.dtype).min, work.dtype)
    if groups > k:
        maxima = work[:, :groups].copy()
        # The few columns left over are in no group: the bound holds without them.
        for member in range(1, size):
            np.maximum(maxima, work[:, member * groups : (member + 1) * groups], out=maxima)
        maxima.partition(groups - k, axis=1)
        np.maximum(bound, maxima[:, groups - k], out=bound)
    passing = work >= bound[:, None]
    crowded = np.flatnonzero(np.count_nonzero(passing, axis=1) > 8 * k)
    if len(crowded):  # many scores equal the bound, and only the first k of equals can be in the list
        equal = work[crowded] == bound[crowded, None]
        passing[crowded] &= ~(equal & (np.cumsum(equal, axis=1, dtype=np.int32) > k))
    flat = np.flatnonzero(passing)
    row, column = np.divmod(flat, items)
    count = np.bincount(row, minlength=n)
    place = np.arange(len(flat)) - np.repeat(np.cumsum(count) - count, count)
    width = int(count.max(initial=0))
    values = work.ravel()[flat] + 0.0  # −0.0 and 0.0 are equal scores and must be equal bits below
    if work.dtype == np.float32:
        # One integer holds the score (descending), then the item (ascending): its order breaks ties.
        bits = values.view(np.uint32)
        descending = np.where(bits >> 31, bits, bits ^ np.uint32(0x7FFFFFFF))
        keys = np.full((n, width), _PAST_THE_END)
        keys[row, place] = (descending.astype(np.uint64) << np.uint64(32)) | column.astype(np.uint64)
        keys.sort(axis=1)
        keys = keys[:, :k]
        return np.where(keys == _PAST_THE_END, -1, (keys & np.uint64(0xFFFFFFFF)).astype(np.int64))
    padded, columns = np.full((n, width), -np.inf, work.dtype), np.full((n, width), -1, np.int64)
    padded[row, place], columns[row, place] = values, column
    return np.take_along_axis(columns, np.argsort(-padded, axis=1, kind="stable")[:, :k], axis=1)


# ---- how much of what was held out stands in the list, how high, and how rare -----------------------------
Protocol = Literal["paper-code", "textbook", "graph"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)
HIT_RATE: dict[str, str] = {"paper-code": "HR", "textbook": "HR", "graph": "Recall"}
LENGTHS: dict[str, tuple[int, ...]] = {"paper-code": (10, 100), "textbook": (10, 100), "graph": (20,)}
A, B = 0.55, 1.5  # the paper's constants of the propensity model (Jain et al., 2016)


def check_protocol(protocol: str) -> None:
    """Refuse a protocol that does not exist.

    Args:
        protocol: A name; those of `PROTOCOLS` exist.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"the protocol is {protocol!r}; expected one of {', '.join(PROTOCOLS)}.")


def ranking_metrics(
    top: NDArray[np.integer],
    held_out: sp.csr_array,
    weights: NDArray[np.float64],
    *,
    k: Sequence[int] | None = None,
    protocol: str = "paper-code",
) -> dict[str, NDArray[np.float64]]:
    """HR (Recall under `graph`), NDCG and PSP of each user at each k, in 0…1.

    Args:
        top: Lists from `top_k`, at least max(k) wide.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
        k: Lengths of the lists that are judged; those of the protocol (`LENGTHS`) unless given.
        protocol: `paper-code`, `textbook` or `graph`.
    """
    check_protocol(protocol)
    hit_rate, gain, published = _DEFINITIONS[protocol]
    held = np.diff(held_out.indptr)
    hit = hits(top, held_out)
    out: dict[str, NDArray[np.float64]] = {}
    for length in LENGTHS[protocol] if k is None else k:
        if length > top.shape[1]:
            raise ConfigError(f"the lists hold {top.shape[1]} items; expected at least k = {length}.")
        out[f"{HIT_RATE[protocol]}@{length}"] = hit_rate(hit[:, :length], held)
        out[f"NDCG@{length}"] = gain(hit[:, :length], held)
        lists = top[:, :length], hit[:, :length]
        out[f"PSP@{length}"] = propensity_scored_precision(*lists, held_out, weights, published=published)
    return out


def truncated_recall(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """The published "HR@k": |top-k ∩ T| / min(|T|, k).

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return hit.sum(axis=1) / np.clip(held, 1, hit.shape[1])


def recall(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """HR@k as the paper's appendix on metrics writes it: |top-k ∩ T| / |T|.

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return hit.sum(axis=1) / np.maximum(held, 1)


def truncated_ndcg(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """NDCG@k of the published numbers (and of trec_eval): the ideal list is no longer than k.

    Σ_{hits at rank r} 1/log2(r+1)  /  Σ_{r=1…min(|T|,k)} 1/log2(r+1)

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return _dcg(hit) / _ideal(np.clip(held, 1, hit.shape[1]))


def ndcg(hit: NDArray[np.bool_], held: NDArray[np.integer]) -> NDArray[np.float64]:
    """NDCG@k as the paper's appendix on metrics writes it: the ideal list holds all of T, however long.

    Σ_{hits at rank r} 1/log2(r+1)  /  Σ_{r=1…|T|} 1/log2(r+1)

    Args:
        hit: Whether each recommended item was held out, [n, k], from `hits`.
        held: How many items were held out for each user, [n].
    """
    return _dcg(hit) / _ideal(np.maximum(held, 1))


def inverse_propensity(item_counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """The weight of each item: w_i = 1 + C (n_i + B)^(−A), C = (ln N − 1)(B + 1)^A.

    The paper's appendix writes it as 1/φ(i),
    with frequencies "in the dataset"; its code, and so both protocols here, count train. C is never below 0
    (a log of two interactions would make it so).

    Args:
        item_counts: n_i: in how many train histories each item stands; N = Σ n_i.
    """
    total = max(1.0, float(np.sum(item_counts)))
    c = max(0.0, np.log(total) - 1.0) * (B + 1.0) ** A
    return 1.0 + c * (np.asarray(item_counts, np.float64) + B) ** -A


def propensity_scored_precision(
    top: NDArray[np.integer],
    hit: NDArray[np.bool_],
    held_out: sp.csr_array,
    weights: NDArray[np.float64],
    *,
    published: bool,
) -> NDArray[np.float64]:
    """PSP@k, as published or as the paper's appendix on metrics writes it.

    Published: (Σ_{hits} w_i / m) / (Σ of the m largest w_i over T), m = min(|T|, k). Only the numerator is
    divided by m, so that a perfect list scores 1/m and not 1. Appendix: (Σ_{hits} w_i / k) / (Σ_{i ∈ T} w_i).

    Args:
        top: Lists of item columns from `top_k`, [n, k].
        hit: Whether each recommended item was held out, from `hits`.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
        published: Which of the two.
    """
    held, k = np.diff(held_out.indptr), top.shape[1]
    m = np.minimum(held, k)
    best = _sum_of_largest(held_out, weights, m if published else held)
    gain = _gain(top, hit, weights) / (np.maximum(m, 1) if published else k)
    return gain / np.where(held > 0, best, 1.0)


# protocol → hit rate, NDCG, whether PSP is the published one
_DEFINITIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], bool]] = {
    "paper-code": (truncated_recall, truncated_ndcg, True),
    "textbook": (recall, ndcg, False),
    "graph": (recall, truncated_ndcg, False),
}


def _dcg(hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    return hit @ _discounts(hit.shape[1])


def _ideal(lengths: NDArray[np.integer]) -> NDArray[np.float64]:
    return np.cumsum(_discounts(int(lengths.max(initial=1))))[lengths - 1]


def _discounts(k: int) -> NDArray[np.float64]:
    """1 / log2(r + 1) for the ranks r = 1 … k."""
    return 1.0 / np.log2(np.arange(2.0, k + 2.0))


def _gain(
    top: NDArray[np.integer], hit: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    row, rank = np.nonzero(hit)  # few of a list are hits: gathering only those is cheaper than all of `top`
    return np.bincount(row, weights[top[row, rank]], minlength=len(top)).astype(np.float64)


def _sum_of_largest(
    held_out: sp.csr_array, weights: NDArray[np.float64], m: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Per row, the sum of its m largest weights."""
    n = held_out.shape[0]
    row = np.repeat(np.arange(n), np.diff(held_out.indptr))
    w = weights[held_out.indices]
    order = np.lexsort((-w, row))
    # Rows stay where they are; only their insides are sorted.
    place = np.arange(len(row)) - held_out.indptr[row]
    return np.bincount(row, np.where(place < m[row], w[order], 0.0), minlength=n).astype(np.float64)
