"""From scores to lists: the k best items of each user, and which of them were held out.

How `top_k` is fast. Sorting whole rows is wasted work, and so is an exact partition of them. Each row is cut
into groups of columns; the k-th largest of the groups' maxima is a lower bound of the row's k-th largest
score, because k different items reach it. Few more than k items pass that bound, and only those are sorted.
Rows are taken in blocks that stay in a core's cache. (A second thread gains nothing: gathering the few
candidates holds the interpreter.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

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
