"""Lists that are not all alike: relevance weighed against likeness and popularity, and caps per attribute.

The best items by score are a shortlist, from which a list is chosen one item after the other:

    value(i) = (1 − d) · relevance(i) − 1.8 d · max over j in the list of likeness(i, j)

d is the wish for diversity (maximal marginal relevance; Carbonell and Goldstein, 1998). Relevance is the
score between the last of the shortlist (0) and the first (1). Likeness is the model's own: how the scores of
two items go together over people. With c_i the scores of item i less each person's and the item's own mean,

    likeness(i, j) = ⟨c_i, c_j⟩ / ((‖c_i‖ ‖c_j‖)^¾ · s^½)        s: the usual ‖c‖ of what people choose

which lies between covariance and correlation, so that items of a small following are less like others.

The wish for popularity p lowers the relevance by |p| / 2 for each doubling of popularity by which an item
lies beyond the mean of the history: above it where p is negative, below it where p is positive. So nobody is
moved past what they are used to. Of equal values the first of the shortlist wins.

Nothing but numpy is needed: the service chooses its lists so, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.errors import ConfigError
from infrec.metrics.ranking import top_k
from infrec.models.balance import Balance
from infrec.randomness import generator

if TYPE_CHECKING:
    from infrec.models.lists import Lists

SHORTLIST = 200  # items from which lists of up to half as many are chosen
PEOPLE = 512  # users whose scores say which items are alike
WIDTH = 64  # of the vectors that these scores are brought down to: their main directions
_LIKENESS = 1.8  # how much of the shortlist's range of scores the double of a usual item costs at d = 1
_DOUBLING = 0.5  # how much of that range a doubling of popularity beyond the usual costs at |p| = 1
_POWER = 0.75  # 0: covariances, 1: correlations
_LEAST = 1e-4  # of the largest score: a smaller spread over people is rounding
_BLOCK_BYTES = 32 << 20  # of the vectors of the shortlists that are chosen from at once


@dataclass(frozen=True, eq=False)
class Attribute:
    """The values that each item has of a column of the items table.

    Args:
        codes: Numbers of the values, items × the most values of an item; `values` where an item has fewer.
        values: How many values there are.
    """

    codes: NDArray[np.int32]
    values: int

    @classmethod
    def of(cls, info: pa.Table | None, name: str) -> Attribute:
        """The values of a column; a text may hold several, with | between them, and null is none.

        Args:
            info: The items table of a log.
            name: The column, or what its name is the plural of: `genre` means `genres`, too.
        """
        columns = [] if info is None else info.column_names
        column = next((each for each in (name, f"{name}s") if each in columns), None)
        if info is None or column is None:
            there = ", ".join(columns) or "none"
            raise ConfigError(
                f"max_per names {name!r}, which the items of the model do not have (they have: {there}); "
                "name one of these, or fit on data with a table of items that has it."
            )
        numbers: dict[str, int] = {}
        rows = []
        for value in info.column(column).to_pylist():
            parts = (
                value.split("|") if isinstance(value, str) else value if isinstance(value, list) else [value]
            )
            kept = dict.fromkeys(str(part).strip() for part in parts if part is not None)
            kept.pop("", None)
            rows.append([numbers.setdefault(part, len(numbers)) for part in kept])
        codes = np.full((len(rows), max(map(len, rows), default=0)), len(numbers), np.int32)
        for at, row in enumerate(rows):
            codes[at, : len(row)] = row
        return cls(codes, len(numbers))


class Traits:
    """Traits of a fitted model's items beside scores, each made when it is first asked for.

    Args:
        model: The model, which is not fitted again.
    """

    def __init__(self, model: Lists) -> None:
        self._model = model
        self._attributes: dict[str, Attribute] = {}

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """A vector for each item, whose products are likenesses; 0 for one that is like none."""
        model, n = self._model, self._model.log.n_users
        people = np.sort(generator(0, "likeness of items").choice(n, min(n, PEOPLE), replace=False))
        scores = np.ascontiguousarray(model.fitted_scores(people).T, dtype=np.float32)
        least = _LEAST * np.sqrt(len(people)) * max(float(np.abs(scores).max()), np.finfo(np.float32).tiny)
        scores = scores - scores.mean(axis=0)
        scores -= scores.mean(axis=1, keepdims=True)
        lengths = np.linalg.norm(scores, axis=1)
        if not (lengths > least).any():
            raise ConfigError(
                "this model puts items in the same order for everybody, so it does not know which are alike; "
                "expected diversity 0 with it, or another model."
            )
        scores[lengths <= least] = 0.0
        chosen = model.popularity.astype(np.float64)
        usual = max(least, float(np.sqrt(chosen @ lengths**2 / max(chosen.sum(), 1e-30))))
        _, directions = np.linalg.eigh(scores.T @ scores)  # the largest last
        main = np.ascontiguousarray(directions[:, -WIDTH:])
        scale = np.maximum(lengths, least) ** _POWER * usual ** (1 - _POWER)
        return (scores @ main / scale[:, None]).astype(np.float32)

    @cached_property
    def doublings(self) -> NDArray[np.float32]:
        """log₂ of each item's popularity; one that nobody has stands with the rarest that somebody has."""
        counts = self._model.popularity.astype(np.float64)
        return np.log2(np.maximum(counts, counts[counts > 0].min(initial=1.0))).astype(np.float32)

    @cached_property
    def _usual(self) -> float:
        """The mean of `doublings` over all interactions."""
        weights = self._model.popularity.astype(np.float64)
        return float(weights @ self.doublings / max(float(weights.sum()), np.finfo(float).tiny))

    def usual(self, rows: sp.csr_array) -> NDArray[np.float32]:
        """The mean of `doublings` over each history; over all interactions where a history is empty."""
        counts = np.diff(rows.indptr)
        owner = np.repeat(np.arange(len(counts)), counts)
        sums = np.bincount(owner, weights=self.doublings[rows.indices], minlength=len(counts))
        return np.where(counts > 0, sums / np.maximum(counts, 1), self._usual).astype(np.float32)

    def attribute(self, name: str) -> Attribute:
        """The values of a column of the items table.

        Args:
            name: The column, or what its name is the plural of.
        """
        if name not in self._attributes:
            self._attributes[name] = Attribute.of(self._model.log.item_info, name)
        return self._attributes[name]


@dataclass(frozen=True, eq=False)
class Reranker:
    """Chooses lists from shortlists.

    Args:
        balance: How much likeness and popularity count.
        traits: What is known of the model's items.
        caps: Attributes, and how many items of a list may have one value of it.
    """

    balance: Balance
    traits: Traits
    caps: Sequence[tuple[Attribute, int]] = ()

    @classmethod
    def of(cls, traits: Traits, balance: Balance, max_per: Mapping[str, int] | None) -> Reranker | None:
        """The reranker for these wishes; None where lists go by scores alone.

        Args:
            traits: What is known of the model's items.
            balance: How much likeness and popularity count.
            max_per: Column of the items table → how many items of a list may have the same value of it.
        """
        for name, most in (max_per or {}).items():
            if not isinstance(most, int | np.integer) or isinstance(most, bool) or most < 1:
                raise ConfigError(f"max_per is {most!r} for {name!r}; expected a whole number of at least 1.")
        caps = [(traits.attribute(name), int(most)) for name, most in (max_per or {}).items()]
        return None if balance.neutral and not caps else cls(balance, traits, caps)

    def best(
        self,
        scores: NDArray[np.float32],
        rows: sp.csr_array,
        k: int,
        *,
        exclude: sp.csr_array | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.int64]:
        """Columns of the chosen items of each history, in the order of the list; −1 where none is left.

        Args:
            scores: [n, items].
            rows: The histories, CSR [n, items].
            k: Length of the lists.
            exclude: CSR [n, items]; its stored entries never appear.
            allowed: bool [items]; nothing else appears.
        """
        n, items = scores.shape
        out = np.full((n, k), -1, np.int64)
        first = min(items, max(SHORTLIST, 2 * k))
        size = min(items, max(first, 8 * k)) if self.caps else first
        left = np.arange(n)
        while len(left):
            every = len(left) == n
            mine = scores if every else scores[left]
            without = exclude if exclude is None or every else exclude[left]
            short = top_k(mine, size, exclude=without, only=allowed)
            out[left] = self._choose(short, mine, rows if every else rows[left], k, first)
            # Caps may need more of the catalogue than the shortlist has.
            unfinished = (out[left, -1] < 0) & (short[:, -1] >= 0)
            if size == items:
                break
            left, size = left[unfinished], min(items, 4 * size)
        return out

    def _choose(
        self, short: NDArray[np.int64], scores: NDArray[np.float32], rows: sp.csr_array, k: int, first: int
    ) -> NDArray[np.int64]:
        """Lists from shortlists, a block of users at a time; relevance 0 is the score at place `first`."""
        out = np.full((len(short), k), -1, np.int64)
        usual = self.traits.usual(rows) if self.balance.popularity else None
        width = WIDTH + sum(attribute.codes.shape[1] for attribute, _ in self.caps) + 8
        counted = sum(attribute.values for attribute, _ in self.caps)
        step = max(1, _BLOCK_BYTES // (4 * (width * short.shape[1] + counted)))
        for start in range(0, len(short), step):
            some = slice(start, start + step)
            there = short[some] >= 0
            columns = np.where(there, short[some], 0)
            values = np.take_along_axis(scores[some], columns, axis=1)
            last = np.maximum(there[:, :first].sum(axis=1) - 1, 0)
            span = values[:, :1] - np.take_along_axis(values, last[:, None], axis=1)
            gain = (values - values[:, :1]) / np.where(span > 0, span, 1) + 1
            if usual is not None:
                apart = self.traits.doublings[columns] - usual[some, None]
                beyond = np.maximum(-np.sign(self.balance.popularity) * apart, 0)
                gain -= _DOUBLING * abs(self.balance.popularity) * beyond
            gain *= 1 - self.balance.diversity
            gain[~there] = -np.inf
            chosen = self._one_by_one(gain, columns, k)
            out[some] = np.where(chosen >= 0, np.take_along_axis(columns, chosen, axis=1), -1)
        return out

    def _one_by_one(self, gain: NDArray[np.floating[Any]], columns: NDArray[np.int64], k: int) -> Any:
        """Places in each shortlist, in the order in which they are chosen; `gain` is used up."""
        n, user = len(gain), np.arange(len(gain))
        places = np.full((n, k), -1, np.int64)
        weight = _LIKENESS * self.balance.diversity
        vectors = self.traits.vectors[columns] if weight else None
        nearest = np.zeros_like(gain)
        caps = [_Counts(attribute, most, columns) for attribute, most in self.caps]
        for place in range(min(k, gain.shape[1])):
            value = gain - weight * nearest if weight else gain
            at = value.argmax(axis=1)
            found = gain[user, at] > -np.inf
            if not found.any():
                break
            places[found, place] = at[found]
            gain[user, at] = -np.inf
            if vectors is not None:
                alike = np.matmul(vectors, vectors[user, at][:, :, None])[:, :, 0]
                np.maximum(nearest, alike, out=nearest)
            for cap in caps:
                cap.take(user, at, gain)
        return places


class _Counts:
    """How many items of each list have a value, and which items of the shortlists may no longer be taken."""

    def __init__(self, attribute: Attribute, most: int, columns: NDArray[np.int64]) -> None:
        n, width = len(columns), attribute.values + 1
        self.most = most
        # A number for each user and value; the last of each user stands for none and never reaches the cap.
        self.codes = attribute.codes[columns] + (np.arange(n, dtype=np.int32) * width)[:, None, None]
        self.taken = np.zeros(n * width, np.int32)
        self.taken[attribute.values :: width] = np.iinfo(np.int32).min // 2

    def take(
        self, user: NDArray[np.integer], at: NDArray[np.integer], gain: NDArray[np.floating[Any]]
    ) -> None:
        """Count the chosen items; those of the same shortlist with a value that is full have no gain left."""
        own = self.codes[user, at]
        self.taken[own] += 1
        full = self.taken[own] >= self.most
        if not full.any():
            return
        for column in np.flatnonzero(full.any(axis=0)):
            rows = np.flatnonzero(full[:, column])
            over = (self.codes[rows] == own[rows, column, None, None]).any(axis=2)
            gain[rows] = np.where(over, -np.inf, gain[rows])
