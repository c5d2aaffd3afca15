"""From requests to answers: histories scored together, filters, lists, reasons. No HTTP here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.errors import InfrecError
from infrec.kernels.gram import FEW
from infrec.models.balance import Balance
from infrec.models.lists import allowed_items, best_items, score_or_popularity, unlisted
from infrec.models.reranking import Reranker
from infrec.serve.schemas import (
    ExplainRequest,
    PersonRequest,
    Problem,
    RecommendRequest,
)
from infrec.serve.served_model import Id, Served, compact

_NOBODY = "\0"  # the name of a history that belongs to no known user
USERS_SHOWN = 20  # of an explanation: those that raise the score most


@dataclass(slots=True)
class _History:
    """A person's history as columns with weights, and the ids that the model does not know."""

    user: Id | None  # that the model was fitted on
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]
    unknown: list[Id]


@dataclass(slots=True)
class _Ready:
    """A request whose ids are columns: the history, which items may be there, what counts beside scores."""

    request: RecommendRequest
    history: _History
    allowed: NDArray[np.bool_] | None
    reranker: Reranker | None


def recommend(served: Served, requests: Sequence[RecommendRequest]) -> list[bytes | Exception]:
    """The answers as JSON, or what is wrong with a request; histories are scored together."""
    ready: list[_Ready] = []
    out: list[bytes | Exception] = [Problem(500, "internal", "no answer was made.")] * len(requests)
    places = []
    for place, request in enumerate(requests):
        try:
            allowed = _allowed(served, request) if request.filtered else None
            reranker = _reranker(served, request) if request.balanced else None
            ready.append(_Ready(request, _history(served, request), allowed, reranker))
            places.append(place)
        except Problem as problem:
            out[place] = problem
    if ready:
        rows = _stacked(served, [one.history for one in ready])
        scores = _scores(served, rows, [one.history.user for one in ready])
        disliked = served.disliked([one.history.user for one in ready])
        lists = _lists(ready, rows, scores, disliked)
        for place, one, items, values in zip(places, ready, *lists, strict=True):
            out[place] = _answer(served, one, items, values)
    return out


def explain(served: Served, request: ExplainRequest) -> bytes:
    """Why an item has its score for a history, as JSON: every item of the history, and the foremost users."""
    if not served.explains:
        raise Problem(
            422, "invalid", f"a model of the type {served.model.name} cannot explain; ask an infinite-ae."
        )
    at = served.catalogue.position.get(str(request.item))
    if at is None:
        raise Problem(404, "unknown_item", f"the model {served.name!r} has no item {request.item!r}.")
    history = _history(served, request)
    (reasons,) = _reasons(served, history, np.array([at]), len(history.columns), USERS_SHOWN)
    head = {"model": served.label, "item": served.catalogue.ids[at], "title": served.catalogue.titles[at]}
    return compact({**head, **reasons, "unknown": history.unknown})


def similar(served: Served, item: str, k: int) -> bytes:
    """The k items most like one, as JSON, best first.

    Args:
        served: The model that is asked.
        item: The text of the item's id.
        k: How many.
    """
    catalogue = served.catalogue
    at = catalogue.position.get(item)
    if at is None:
        raise Problem(404, "unknown_item", f"the model {served.name!r} has no item {item[:100]!r}.")
    rows = served.model.similar(served.log.items.ids[at].as_py(), k).table
    columns = pc.index_in(rows.column("item"), served.log.items.ids).to_pylist()
    listed = [
        {
            **catalogue.facts(column),
            "popularity": int(catalogue.counts[column]),
            "rank": rank,
            "score": float(f"{score:.6g}"),
        }
        for rank, (column, score) in enumerate(zip(columns, rows.column("score").to_pylist(), strict=True), 1)
    ]
    return compact({"model": served.label, "item": catalogue.ids[at], "items": listed})


# ---- in -----------------------------------------------------------------------------------------
def _history(served: Served, request: PersonRequest) -> _History:
    if request.user is None:
        columns, unknown = served.catalogue.positions(request.history or ())
        return _History(None, np.array(columns, np.int32), np.ones(len(columns), np.float32), unknown)
    row = served.users.get(str(request.user))
    if row is None:
        return _History(None, np.empty(0, np.int32), np.empty(0, np.float32), [request.user])
    matrix = served.log.matrix
    span = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return _History(served.log.users.ids[row].as_py(), matrix.indices[span], matrix.data[span], [])


def _allowed(served: Served, request: RecommendRequest) -> NDArray[np.bool_]:
    catalogue = served.catalogue
    within = []
    if request.only is not None:
        columns, unknown = catalogue.positions(request.only)
        if not columns:
            raise Problem(
                422, "invalid", f"none of the {len(unknown)} items in `only` is known to {served.name!r}."
            )
        within.append(columns)
    if request.genres is not None:
        if not catalogue.genre_names:
            raise Problem(422, "invalid", f"the items of {served.name!r} have no genres; leave `genres` out.")
        members, strangers = catalogue.of_genres(request.genres)
        if strangers:
            known = ", ".join(catalogue.genre_names[:30])
            raise Problem(422, "invalid", f"there is no genre {strangers[0]!r}; there is: {known}.")
        within.append(members)
    return allowed_items(len(catalogue), within, catalogue.positions(request.exclude or ())[0])


def _reranker(served: Served, request: RecommendRequest) -> Reranker | None:
    balance = Balance(request.diversity, request.popularity)
    try:
        if balance.diversity:
            _ = served.model.traits.vectors
        return Reranker.of(served.model.traits, balance, request.max_per)
    except InfrecError as failure:
        raise Problem(422, "invalid", f"{served.name}: {failure}") from None


def _stacked(served: Served, histories: Sequence[_History]) -> sp.csr_array:
    ends = np.cumsum([0] + [len(one.columns) for one in histories])
    weights = np.concatenate([one.weights for one in histories])
    columns = np.concatenate([one.columns for one in histories])
    return sp.csr_array((weights, columns, ends), shape=(len(histories), served.log.n_items))


# ---- scores and lists ---------------------------------------------------------------------------
def _scores(served: Served, rows: sp.csr_array, users: list[Id | None]) -> NDArray[np.float32]:
    """Scores of every item; popularity for those of whom nothing is known."""
    named = any(user is not None for user in users)  # a model may have learnt something for them

    def score(some: sp.csr_array, places: NDArray[np.intp]) -> NDArray[np.float32]:
        names = [_NOBODY if users[at] is None else users[at] for at in places] if named else None
        return served.model.score(some, users=names)

    # So few at a time are scored the same in any company.
    return score_or_popularity(rows, lambda: served.popularity, score, step=FEW)


def _lists(
    ready: Sequence[_Ready],
    rows: sp.csr_array,
    scores: NDArray[np.float32],
    disliked: sp.csr_array | None,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.float32]]]:
    """Each request's best items and their scores. Those of one length and by scores alone go together."""
    groups: dict[tuple[int, bool, int], list[int]] = {}
    for at, one in enumerate(ready):
        alone = -1 if one.allowed is None and one.reranker is None else at
        groups.setdefault((one.request.k, one.request.exclude_seen, alone), []).append(at)
    items: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(ready)
    for (k, exclude_seen, _), members in groups.items():
        first, own, values, theirs = ready[members[0]], rows, scores, disliked
        if len(members) < len(ready):
            own, values = rows[members], scores[members]
            theirs = None if disliked is None else disliked[members]
        unwanted = unlisted(own, exclude_seen, theirs)
        best = best_items(values, own, k, unwanted, first.allowed, first.reranker)
        for at, row in zip(members, best, strict=True):
            items[at] = row[row >= 0]
    return items, [scores[at, columns] for at, columns in enumerate(items)]


# ---- out ----------------------------------------------------------------------------------------
def _answer(served: Served, one: _Ready, items: NDArray[np.int64], values: NDArray[np.float32]) -> bytes:
    pieces = served.catalogue.json
    reasons: list[bytes] = []
    most = one.request.explain
    if most and served.explains and len(one.history.columns):
        reasons = [
            b',"because":' + compact(reason) for reason in _reasons(served, one.history, items, most, most)
        ]
    listed = [
        b'%b,"rank":%d,"score":%.6g%b}' % (pieces[item], rank, score, reasons[rank - 1] if reasons else b"")
        for rank, (item, score) in enumerate(zip(items.tolist(), values.tolist(), strict=True), 1)
    ]
    return b'{"model":%b,"source":%b,"items":[%b],"unknown":%b}' % (
        served.label_json,
        b'"model"' if len(one.history.columns) else b'"popular"',
        b",".join(listed),
        compact(one.history.unknown) if one.history.unknown else b"[]",
    )


def _reasons(
    served: Served, history: _History, items: NDArray[np.int64], most_items: int, most_users: int
) -> list[dict[str, Any]]:
    """For each item its score, and what the history and the users contributed, largest first."""
    try:
        user = None if history.user is None else served.users[str(history.user)]
        rows = _stacked(served, [history])
        parts = served.model.contributions(rows, items, user)  # type: ignore[attr-defined]
    except InfrecError as failure:
        raise Problem(422, "invalid", str(failure)) from None
    ids, titles = served.catalogue.ids, served.catalogue.titles
    out = []
    for at in range(len(items)):
        best_columns = np.argsort(-parts.by_item[:, at], kind="stable")[:most_items]
        best_users = np.argsort(-parts.by_user[:, at], kind="stable")[:most_users]
        shares = [(int(history.columns[j]), _brief(parts.by_item[j, at])) for j in best_columns]
        users = [
            {
                "user": served.user_name(u),
                "contribution": _brief(parts.by_user[u, at]),
                "likes": served.likes(u),
            }
            for u in best_users.tolist()
        ]
        out.append(
            {
                "score": _brief(parts.by_user[:, at].sum() + parts.beside[at]),
                "baseline": _brief(parts.baseline[at]),
                "items": [{"item": ids[c], "title": titles[c], "contribution": value} for c, value in shares],
                "users": users,
            }
        )
    return out


def _brief(value: float) -> float:
    return float(f"{value:.6g}")
