"""A summary carried into the next period: what it holds of the past is distilled together with a new log.

The past is the old summary's users, each of whom weighs as many real users as it stands for; the new log's
users weigh 1 each. The new summary has the old one's size and settings. Its logits go on from the old one's
users, from as many as the past has of all users; the others begin with the new log's popularity. Items may be
new: the vocabulary is that of both. Nothing of the old log itself is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.data.vocabulary import from_numpy
from infrec.distillation.settings import DistillSettings, given_only
from infrec.errors import ConfigError, DataError
from infrec.splits import Split
from infrec.splits.provenance import fingerprints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data.summary import Summary

Data = TypeVar("Data", bound=Split | Interactions)
LEAST_KNOWN = 0.1  # share of a new log's interactions that are with items of the summary it goes on from
SIZES = ("users", "target", "per_user", "total", "percent", "bytes", "gamma")


@dataclass(frozen=True, eq=False)
class Past:
    """An old summary over the items of both: its rows, what each weighs, how many users it stands for."""

    matrix: sp.csr_array
    weight: float
    represents: int
    periods: int
    start: str  # how the first summary of the chain began
    fingerprints: tuple[str, ...] = ()  # of the logs that it was made from

    @classmethod
    def of(cls, summary: Summary, items: Vocabulary) -> Past:
        about = summary.about
        represents = int(about.get("represents", about["source"]["users"]))
        return cls(
            matrix=_columns(summary.matrix, items.positions(summary.items.ids), len(items)),
            weight=represents / summary.n_users,
            represents=represents,
            periods=int(about.get("periods", 1)),
            start=str(about.get("first_start", about["start"])),
            fingerprints=fingerprints(about),
        )

    def beside(self, train: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.float32]]:
        """The old summary's rows above those of a new log, and what each row weighs."""
        weights = np.ones(self.matrix.shape[0] + train.shape[0], np.float32)
        weights[: self.matrix.shape[0]] = self.weight
        return sp.csr_array(sp.vstack([self.matrix, train])), weights

    def logits(self, settings: DistillSettings, rng: np.random.Generator) -> NDArray[np.float32]:
        """Logits from which the old summary comes again: exactly where it is soft, else but for the noise."""
        order = np.argsort(np.diff(self.matrix.indptr), kind="stable")  # small rows first, as their sizes are
        rows = self.matrix[order].toarray()
        if settings.mode == "soft":
            least = np.where(rows > 0, rows, np.inf).min(axis=1, keepdims=True, initial=1.0)
            first = settings.tau * np.log(np.maximum(rows, 0.5 * least))
            return (first - first.mean(axis=1, keepdims=True)).astype(np.float32)
        noise = settings.start_noise * rng.standard_normal(rows.shape)
        if settings.mode == "weighted":
            # What a row's mass leaves to the items it lacks, but less than to those it has.
            rest = (settings.mass or 1.0) - rows.sum(axis=1, keepdims=True)
            left = rest / np.maximum((rows == 0).sum(axis=1, keepdims=True), 1)
            least = np.where(rows > 0, rows, np.inf).min(axis=1, keepdims=True, initial=1.0)
            filled = np.where(rows > 0, rows, np.clip(left, 0.01 * least, 0.5 * least))
            first = settings.tau * np.log(filled)
            return (first - first.mean(axis=1, keepdims=True) + noise).astype(np.float32)
        return (np.minimum(rows, 1.0) + noise).astype(np.float32)


def settings(summary: Summary, options: Mapping[str, Any]) -> DistillSettings:
    """The old summary's settings with some changed; its size and mode stay."""
    about = summary.about
    source = about.get("source")
    stands_for = about.get("represents", source.get("users") if isinstance(source, Mapping) else None)
    known = {"settings", "mode", "start"} <= set(about)
    if summary.kind != "summary" or not known or stands_for is None:
        raise ConfigError(
            f"the {summary.kind} to continue does not tell how it was distilled, and from how many users; "
            "expected one that `distill` made."
        )
    wrong = [name for name in SIZES if options.get(name) is not None]
    if wrong:
        raise ConfigError(
            f"{wrong[0]} is given, but a summary is continued within its size ({summary.n_users:,} users, "
            f"{summary.n_interactions:,} interactions); leave it out, or distil anew."
        )
    mode = options.get("mode")
    if mode not in (None, about["mode"]):
        raise ConfigError(
            f"mode is {mode!r}, but the summary to continue is {about['mode']!r}; expected the same."
        )
    changes = {name: value for name, value in given_only(options).items() if name not in SIZES}
    DistillSettings.of(**{**changes, "mode": about["mode"]})  # says which of them is unknown or wrong
    size: dict[str, Any] = {
        "users": summary.n_users,
        "start": "summary",
    }
    if about["mode"] in ("discrete", "weighted"):
        size["per_user"] = summary.n_interactions / summary.n_users
    try:
        before = DistillSettings.from_dict(about["settings"])
    except (AttributeError, ConfigError):
        raise ConfigError(
            "the summary to continue has settings that this version of infrec does not know; distil anew."
        ) from None
    return replace(before, **({"reg": summary.reg or before.reg} | size | changes))


# ---- one vocabulary for both ---------------------------------------------------------------------------
def joined(summary: Interactions, log: Interactions) -> Vocabulary:
    """The items of both, in order; numbers and texts are compared by their text."""
    old, new = summary.items.ids, log.items.ids
    if (log.items.positions(old) < 0).all():
        raise DataError(
            f"none of the summary's {len(old):,} items is among the {len(new):,} of the new data; expected "
            "data over mostly the same items, so check that ids are written the same way."
        )
    is_known = summary.items.positions(new) >= 0
    known = int(log.item_counts[is_known].sum())
    if known < LEAST_KNOWN * log.n_interactions:
        raise DataError(
            f"only {known:,} of the {log.n_interactions:,} interactions of the new data are with items of "
            f"the summary ({int(is_known.sum()):,} of its {len(old):,} items); expected data over mostly the "
            "same items: it looks like another log."
        )
    if is_known.all():
        return summary.items
    if old.type != new.type:
        old, new = old.cast(pa.string()), new.cast(pa.string())
    every = pc.unique(pa.concat_arrays([old, new]))
    return Vocabulary(every.take(pc.sort_indices(every)))


def over(log: Interactions, items: Vocabulary, known: Interactions | None = None) -> Interactions:
    """A log in the columns of a larger vocabulary; `known` tells titles that the log lacks."""
    to = items.positions(log.items.ids)
    parts = log.parts and {name: _columns(part, to, len(items)) for name, part in log.parts.items()}
    matrix, info = _columns(log.matrix, to, len(items)), _info(items, log, known)
    return Interactions(matrix, log.users, items, item_info=info, parts=parts, report=log.report)


def with_items_of(data: Data, summary: Interactions) -> Data:
    """A log or a split in the columns of its own items and the summary's.

    Args:
        data: The log, or the split whose three parts it is done to.
        summary: A summary over mostly the same items; it tells titles that the data lack.
    """
    wider: Any
    if isinstance(data, Split):
        items = joined(summary, data.train)
        train, val, test = (over(part, items, summary) for part in (data.train, data.val, data.test))
        wider = Split(train, val, test, name=data.name)
    else:
        wider = over(data, joined(summary, data), summary)
    return wider


def _columns(matrix: sp.csr_array, to: NDArray[np.int64], width: int) -> sp.csr_array:
    moved = sp.csr_array(
        (matrix.data.copy(), to[matrix.indices], matrix.indptr.copy()), shape=(matrix.shape[0], width)
    )
    moved.sort_indices()
    return canonical(moved)


def _info(items: Vocabulary, *logs: Interactions | None) -> pa.Table | None:
    """Titles, genres and other facts of each item, from the first log that has them."""
    columns: dict[str, Any] = {}
    for log in logs:
        if log is None or log.item_info is None:
            continue
        at = from_numpy(log.items.positions(items.ids))
        places = pc.if_else(pc.greater_equal(at, 0), at, pa.scalar(None, at.type))
        for name in log.item_info.column_names:
            column = log.item_info.column(name).combine_chunks().take(places)
            held = columns.get(name)
            if held is not None and held.type != column.type:
                held, column = held.cast(pa.string()), column.cast(pa.string())
            columns[name] = column if held is None else pc.coalesce(held, column)
    return pa.table(columns) if columns else None
