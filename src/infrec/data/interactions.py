"""The one form in which every room receives data: who interacted with what."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, Union

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec.data.columns import ReadOptions
from infrec.data.vocabulary import Vocabulary, from_numpy
from infrec.errors import DataError
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data.assemble import Fields, ReadReport


logger = logging.getLogger(__name__)
_PREVIEW = 5  # interactions of a log in a notebook


class ArrowStream(Protocol):
    """A dataframe of any library that exports its columns through Arrow: pandas, polars, DuckDB, Arrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


InteractionsLike: TypeAlias = Union[
    "Interactions", ArrowStream, Mapping[str, Sequence[Any]], sp.sparray, sp.spmatrix, "NDArray[Any]"
]  # what `Interactions.from_data` takes


@dataclass(frozen=True, eq=False)
class Interactions:
    """Users × items, immutable.

    Args:
        matrix: Canonical CSR, float32; a stored value is the weight of an interaction, 1 unless given.
        users, items: The id of each row and of each column.
        time: When (int64, any unit; only the order matters), one per stored value in CSR order; or None.
        item_info: Columns about each item, such as `title`, in the order of `items`; or None.
        parts: The split that the data brought along (`train`, `val`, `test` as CSR matrices), or None; a
            repeated pair may sit in several parts, which is why the parts are not a labelling of `matrix`.
        report: Rows that the reader kept and dropped.
        dislikes: A log of what users said they do not like, over these users and items and beside these
            interactions; or None.
    """

    matrix: sp.csr_array
    users: Vocabulary
    items: Vocabulary
    time: NDArray[np.int64] | None = None
    item_info: pa.Table | None = None
    parts: Mapping[str, sp.csr_array] | None = None
    report: ReadReport | None = None
    dislikes: Interactions | None = None

    synthetic_users: ClassVar[bool] = False  # whether the users only stand for others

    def __post_init__(self) -> None:
        shape = (len(self.users), len(self.items))
        if self.matrix.shape != shape:
            raise DataError(
                f"the matrix is {self.matrix.shape}, but there are {shape[0]} user and {shape[1]} item ids."
            )
        if self.time is not None and len(self.time) != self.matrix.nnz:
            raise DataError(
                f"there are {len(self.time)} times for {self.matrix.nnz} interactions; expected one each."
            )
        if self.item_info is not None and self.item_info.num_rows != shape[1]:
            raise DataError(
                f"there are titles or facts for {self.item_info.num_rows} items, but {shape[1]} items."
            )
        if self.dislikes is not None and self.dislikes.matrix.shape != shape:
            raise DataError(
                f"the dislikes are {self.dislikes.matrix.shape}, but the log is {shape}; expected dislikes "
                "of its users and items."
            )
        for part in (self.matrix, *(self.parts or {}).values()):
            for array in (part.data, part.indices, part.indptr):
                array.flags.writeable = False

    # ---- ways in ------------------------------------------------------------------------------------------
    @classmethod
    def read(
        cls, path: Any, *, items: Any = None, progress: Progress = silent, **options: Any
    ) -> Interactions:
        """Read a file or a folder: delimited text or JSON Lines (also compressed), Parquet, a publisher's
        folder or zip, a prepared dataset; here, or at an address such as https://… or s3://….

        A column `split` (train, val, test) fills `.parts`. What was dropped stands in `.report`.

        Args:
            path: The file or the folder.
            items: A file or frame about items (titles, genres), joined on the item.
            progress: Told how many rows are read.
            options: user, item, rating, time, weight: the column's name or number (from 1), where it is not
                recognised. positive: what counts as an interaction, such as "rating >= 4" or "rating >= 4 and
                time > 2020-01-01"; everything does unless told. negative: what is a dislike, such as "rating
                <= 2": it stands in `.dislikes`, beside the interactions. min_user, min_item: leave out users
                and items with fewer interactions, again and again until all that are left have as many.
                items_id, items_title: columns of the table about items. encoding, delimiter: of a text, where
                they are not seen from it. no_header: the first line is a row. duplicates: a repeated (user,
                item) pair counts once ("first") or its values are summed ("sum"). strict: refuse, rather than
                drop and count, rows that cannot be used. by_row: judge every row by itself alone, as
                differential privacy needs: times are not read, and a column `split` is one whatever it holds.
        """
        from infrec.data.read import read

        log = Interactions.from_fields(read(path, ReadOptions(**options), items, progress))
        logger.info("read %s: %r", path, log)
        return log

    @classmethod
    def from_frame(
        cls, frame: Any, *, items: Any = None, progress: Progress = silent, **options: Any
    ) -> Interactions:
        """From any dataframe that speaks the Arrow C stream protocol (pandas, polars, Arrow, DuckDB, …).

        Args:
            frame: The dataframe, one row per interaction; or a mapping of columns.
            items, progress, options: See `read`.
        """
        from infrec.data.assemble import assemble
        from infrec.data.read import items_source
        from infrec.data.sources import TableSource

        source = TableSource(frame)
        fields = assemble(source, ReadOptions(**options), items_source(items), progress)
        log = Interactions.from_fields(fields)
        logger.info("read %s: %r", source.name, log)
        return log

    @classmethod
    def from_fields(cls, fields: Fields) -> Interactions:
        """From what a reader gives; refuses pairs that are liked and disliked.

        Args:
            fields: The fields of a log.
        """
        said, arguments = fields["dislikes"], dict[str, Any](fields)
        log = Interactions(**{**arguments, "dislikes": None})
        return log if said is None else replace(log, dislikes=Interactions.from_fields(said).beside(log))

    @classmethod
    def from_csr(
        cls,
        matrix: Any,
        *,
        users: Iterable[object] | None = None,
        items: Iterable[object] | None = None,
        titles: Sequence[str] | None = None,
    ) -> Interactions:
        """From a users × items matrix (any scipy sparse format, or dense); zeros are not interactions.

        Args:
            matrix: Weights of the interactions, users × items.
            users, items: Ids of the rows and columns; numbered from 0 where not given.
            titles: Title of each item, for lists that people read.
        """
        # A copy: it will be made read-only.
        try:
            csr = canonical(sp.csr_array(matrix, dtype=np.float32, copy=True))
        except (TypeError, ValueError) as error:
            raise DataError(
                f"a {type(matrix).__name__} was given that is no matrix ({error}); expected numbers, a row "
                "for each user and a column for each item."
            ) from None
        if csr.ndim != 2:
            raise DataError(f"the matrix is {csr.shape}; expected two dimensions, users × items.")
        if not np.isfinite(csr.data).all() or (csr.data < 0).any():
            raise DataError("the matrix holds negative or non-finite values; expected weights of 0 or more.")
        rows = Vocabulary.numbered(csr.shape[0]) if users is None else Vocabulary.of(users)
        columns = Vocabulary.numbered(csr.shape[1]) if items is None else Vocabulary.of(items)
        for vocabulary, what in ((rows, "user"), (columns, "item")):
            if vocabulary.ids.null_count:
                raise DataError(f"some {what} ids are missing; expected one for each row or column.")
            if len(vocabulary.ids.unique()) < len(vocabulary):
                raise DataError(
                    f"some {what} ids are given twice; expected a different one for each row or column."
                )
        return cls(
            csr,
            rows,
            columns,
            item_info=None if titles is None else pa.table({"title": pa.array(titles, pa.string())}),
        )

    @classmethod
    def from_data(cls, data: InteractionsLike, *, over: Interactions | None = None) -> Interactions:
        """From anything that holds interactions; `fit`, `evaluate` and `distill` take their data so.

        Args:
            data: `Interactions`; a dataframe, an Arrow table or a mapping of columns, whose user and item
                columns are recognised by their names (`from_frame` takes other names and a rule for ratings);
                or a matrix, users × items (scipy sparse or numpy).
            over: A log whose users and items the result has, in the same order. A matrix has them as its rows
                and columns; of anything else, users and items that the log lacks are left out, with a
                warning.
        """
        if isinstance(data, Interactions):
            log = data
        elif not (sp.issparse(data) or isinstance(data, np.ndarray)):
            log = cls.from_frame(data)
        elif over is None:
            return cls.from_csr(data)
        else:
            return cls.from_csr(data, users=over.users.ids, items=over.items.ids)
        return log if over is None else log._over(over)

    # ---- what it holds ------------------------------------------------------------------------------------
    @property
    def n_users(self) -> int:
        return self.matrix.shape[0]

    @property
    def n_items(self) -> int:
        return self.matrix.shape[1]

    @property
    def n_interactions(self) -> int:
        return int(self.matrix.nnz)

    @property
    def weighted(self) -> bool:
        """Whether any interaction has a weight other than 1."""
        return bool((self.matrix.data != 1).any())

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """In how many users' histories each item stands."""
        return np.bincount(self.matrix.indices, minlength=self.n_items).astype(np.int64)

    @property
    def user_counts(self) -> NDArray[np.int64]:
        """How many items stand in each user's history."""
        return np.diff(self.matrix.indptr).astype(np.int64)

    @property
    def reg_grid(self) -> tuple[float, ...]:
        """λ values that belong to this data: none to a log; a summary brings those it was made with."""
        return ()

    @property
    def titles(self) -> pa.ChunkedArray | None:
        """The title of each item, where known."""
        if self.item_info is None or "title" not in self.item_info.column_names:
            return None
        return self.item_info.column("title")

    def histories(self, of: Iterable[Iterable[object]]) -> tuple[sp.csr_array, list[list[object]]]:
        """Lists of item ids as CSR rows in this vocabulary, and the ids of each list that are not in it.

        Args:
            of: Lists of item ids, one for each row.
        """
        lists = [list(ids) for ids in of]
        flat = self.items.positions([item for ids in lists for item in ids])
        owner = np.repeat(np.arange(len(lists)), [len(ids) for ids in lists])
        known = flat >= 0
        unknown: list[list[object]] = [[] for _ in lists]
        every = [item for ids in lists for item in ids]
        for at in np.flatnonzero(~known):
            unknown[owner[at]].append(every[at])
        row, column = np.divmod(np.unique(owner[known] * self.n_items + flat[known]), max(1, self.n_items))
        ends = np.searchsorted(row, np.arange(len(lists) + 1))
        ones = np.ones(len(row), np.float32)
        return sp.csr_array((ones, column, ends), shape=(len(lists), self.n_items)), unknown

    # ---- ways to another one ------------------------------------------------------------------------------
    def beside(self, log: Interactions) -> Interactions:
        """These interactions as dislikes beside a log of the same users and items; refuses pairs of both.

        Args:
            log: The log.
        """
        if (both := self.matrix.multiply(log.matrix != 0).tocoo()).nnz:
            user, item = self.users[int(both.row[0])], self.items[int(both.col[0])]
            raise DataError(
                f"{both.nnz:,} pairs of user and item are liked and disliked at once, such as user {user!r} "
                f"and item {item!r}; expected one of both: leave out what somebody said earlier, or change "
                "the rules."
            )
        return self

    def with_dislikes(self, dislikes: InteractionsLike | None) -> Interactions:
        """A log with these interactions, and with dislikes beside them.

        Args:
            dislikes: In any form that `from_data` takes; those of users and items that the log lacks are left
                out. None: no dislikes.
        """
        if dislikes is None:
            return replace(self, dislikes=None)
        return replace(self, dislikes=Interactions.from_data(dislikes, over=self).beside(self))

    def with_matrix(self, matrix: sp.csr_array, *, time: NDArray[np.int64] | None = None) -> Interactions:
        """A log of these users and items with other interactions, and without dislikes.

        Args:
            matrix: The other interactions, of equal shape.
            time: When each of them was; None: unknown.
        """
        return replace(self, matrix=canonical(matrix), time=time, parts=None, dislikes=None)

    def select_users(self, rows: NDArray[np.integer]) -> Interactions:
        """Only these users, in this order; every item stays.

        Args:
            rows: Row numbers of the users.
        """
        matrix, time = self.matrix[rows], None
        if self.time is not None:
            positions = self.matrix.copy()
            positions.data = np.arange(positions.nnz, dtype=np.int64)
            time = self.time[positions[rows].data]
        parts = (
            None if self.parts is None else {name: canonical(part[rows]) for name, part in self.parts.items()}
        )
        return replace(
            self,
            matrix=canonical(matrix),
            users=Vocabulary(self.users.take(rows)),
            time=time,
            parts=parts,
            dislikes=self.dislikes and self.dislikes.select_users(rows),
        )

    def align_items(self, items: Vocabulary) -> Self:
        """These interactions in the columns of another item vocabulary; refuses to lose any.

        Args:
            items: The vocabulary whose columns are wanted.
        """
        if items == self.items:
            return self
        to = items.positions(self.items.ids)
        if (to[self.matrix.indices] < 0).any():
            raise DataError(
                f"{int((to < 0).sum())} of {self.n_items} items are unknown to the other dataset; "
                "expected data over the same items."
            )
        coo = self.matrix.tocoo()
        matrix = sp.csr_array((coo.data, (coo.row, to[coo.col])), shape=(self.n_users, len(items)))
        other = replace(
            self, matrix=canonical(matrix), items=items, time=None, item_info=None, parts=None, dislikes=None
        )
        return other if self.dislikes is None else replace(other, dislikes=self.dislikes.align_items(items))

    def _over(self, log: Interactions) -> Interactions:
        """These interactions over the users and items of another log, as far as it has them."""
        if self.users == log.users and self.items == log.items:
            return self
        coo = self.matrix.tocoo()
        row = log.users.positions(self.users.ids)[coo.row]
        column = log.items.positions(self.items.ids)[coo.col]
        known = (row >= 0) & (column >= 0)
        if len(known) and not known.any():
            who = "items" if (column < 0).all() else "users" if (row < 0).all() else "pairs of user and item"
            raise DataError(
                f"none of the {len(known):,} interactions is of the log's users and items: they have other "
                f"{who}; expected ids such as {_first(log.users)} (user) and {_first(log.items)} (item)."
            )
        if not known.all():
            users, items = np.count_nonzero(row < 0), np.count_nonzero(column < 0)
            warnings.warn(
                f"{np.count_nonzero(~known):,} of {len(known):,} interactions are left out: {users:,} of "
                f"users and {items:,} of items that the log does not have.",
                stacklevel=4,
            )
        pairs = (coo.data[known], (row[known], column[known]))
        return log.with_matrix(sp.csr_array(pairs, shape=log.matrix.shape))

    def to_table(self) -> pa.Table:
        """One row per interaction: user, item, weight, and time where known."""
        coo = self.matrix.tocoo()
        columns = {
            "user": self.users.take(coo.row),
            "item": self.items.take(coo.col),
            "weight": from_numpy(coo.data.astype(np.float32)),
        }
        if self.time is not None:
            columns["time"] = from_numpy(self.time)
        return pa.table(columns)

    def __repr__(self) -> str:
        return (
            f"Interactions({self.n_users:,} users × {self.n_items:,} items, "
            f"{self.n_interactions:,} interactions"
            f"{', weighted' if self.weighted else ''}{', own split' if self.parts else ''}"
            f"{f', {self.dislikes.n_interactions:,} dislikes' if self.dislikes else ''})"
        )

    def _repr_html_(self) -> str:
        """The size, and the first interactions."""
        from infrec.data.rows import as_html

        first = self.matrix[: np.searchsorted(self.matrix.indptr, _PREVIEW)].tocoo()
        users, items = (at[:_PREVIEW].tolist() for at in (first.row, first.col))
        columns: dict[str, list[Any]] = {
            "user": [self.users[at] for at in users],
            "item": [self.items[at] for at in items],
            "weight": first.data[:_PREVIEW].tolist(),
        }
        if self.titles is not None:
            columns["title"] = self.titles.take(pa.array(items, pa.int64())).to_pylist()
        return as_html(repr(self), list(columns), zip(*columns.values(), strict=True))


def _first(vocabulary: Vocabulary) -> str:
    return repr(vocabulary[0]) if len(vocabulary) else "none"


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Sorted columns, no repeats, no stored zeros, float32."""
    matrix = sp.csr_array(matrix, dtype=np.float32)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix
