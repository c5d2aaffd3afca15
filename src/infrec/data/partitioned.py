"""Reading a prepared dataset: whole, or partition by partition, each one checked before it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec import artifacts
from infrec.contents import Artifact, fits, read_table
from infrec.data.assemble import PARTS, Fields, ReadReport, merge, sorted_csr
from infrec.data.vocabulary import Vocabulary
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray


KIND = "dataset"  # of artifacts that `infrec datasets prepare` wrote


@dataclass(frozen=True, eq=False)
class PartitionedLog:
    """A dataset on disk, partitioned by user. `users` and `items` are read; interactions when asked for."""

    folder: Path
    manifest: Mapping[str, Any]
    users: Vocabulary
    items: Vocabulary
    user_counts: NDArray[np.int64]
    item_counts: NDArray[np.int64]
    item_info: pa.Table | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PartitionedLog:
        """Read what is small: the manifest and the ids."""
        folder, manifest = artifacts.opened(path, kind=KIND)
        tables = {
            name: read_table(artifacts.check(folder, manifest, f"{name}.parquet"))
            for name in ("users", "items")
        }
        artifact = Artifact(folder, manifest, tables=tables)
        with artifact.understood():
            users, items = Vocabulary(artifact.ids("users")), Vocabulary(artifact.ids("items"))
            total = artifact.number("interactions", whole=True, least=1)
            per_user, per_item = (
                artifact.inside(f"counts of {name}", artifact.column(name, "interactions", "i"), total + 1)
                for name in tables
            )
            artifact.agree(users=len(users), items=len(items), interactions=int(per_user.sum()))
            _check(artifact, len(users))
            return cls(folder, manifest, users, items, per_user, per_item, artifact.about_items())

    @property
    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """File, first user, number of users and of rows of each partition, in the order of users."""
        return self.manifest["partitions"]

    def share(self, processes: int, index: int) -> range:
        """The partitions of one process of many: neighbours, about equally many rows for each process."""
        rows = np.array([facts["rows"] for facts in self.partitions], np.float64)
        middle = np.cumsum(rows) - rows / 2
        owner = np.minimum((middle * processes / max(1.0, rows.sum())).astype(int), processes - 1)
        mine = np.flatnonzero(owner == index)
        return range(int(mine[0]), int(mine[-1]) + 1) if len(mine) else range(0)

    @property
    def report(self) -> ReadReport:
        """The reader's report from when the dataset was prepared: rows kept and dropped."""
        m = self.manifest
        return ReadReport(m["source"], m["rows"], m["interactions"], m["dropped"], tuple(m["notes"]))

    def batches(self, partitions: Sequence[int] | None = None) -> Iterator[sp.csr_array]:
        """One CSR matrix (users of the partition × all items) after the other: what a streaming pass takes.

        partitions: which of them, in this order; each process of many reads its own.
        """
        for number in range(len(self.partitions)) if partitions is None else partitions:
            facts = self.partitions[number]
            yield self._read(facts, ("user", "item", "weight", "part"))[1]

    def rows(self, users: Sequence[int] | NDArray[np.integer]) -> sp.csr_array:
        """The histories of these users (row numbers; −1: an empty one), read from their partitions alone."""
        wanted = np.asarray(users, np.int64)
        first = np.array([facts["first_user"] for facts in self.partitions])
        place = np.searchsorted(first, wanted, side="right") - 1
        nothing = sp.csr_array((1, len(self.items)), dtype=np.float32)
        pieces, at = [nothing], np.zeros(len(wanted), np.int64)
        for number in np.unique(place[wanted >= 0]):
            mine = np.flatnonzero((place == number) & (wanted >= 0))
            (batch,) = self.batches([int(number)])
            at[mine] = sum(part.shape[0] for part in pieces) + np.arange(len(mine))
            pieces.append(batch[wanted[mine] - first[number]])
        return sp.csr_array(sp.vstack(pieces, format="csr"))[at]

    def fields(self, progress: Progress = silent) -> Fields:
        """All of it in memory, as arguments of `Interactions`: about 8 bytes per interaction, and 8 more with
        times."""
        m, shape = self.manifest, (len(self.users), len(self.items))
        total = int(m["interactions"])
        wide = np.int32 if total < 2**31 else np.int64
        indptr = np.zeros(shape[0] + 1, wide)
        np.cumsum(self.user_counts, out=indptr[1:])
        indices, data = np.empty(total, wide), np.empty(total, np.float32)
        time = np.empty(total, np.int64) if m["times"] else None
        by_part: dict[str, list[sp.csr_array]] = {name: [] for name in PARTS} if m["split"] else {}
        for number, facts in enumerate(self.partitions):
            rows, own, first = self._read(facts, ("user", "item", "weight", "part", "time"))
            start = int(indptr[facts["first_user"]])
            some = slice(start, start + own.nnz)
            indices[some], data[some] = own.indices, own.data
            if time is not None:
                time[some] = rows["time"][first]
            for place, name in enumerate(by_part):
                user, item, weight = (
                    rows[column][rows["part"] == place] for column in ("user", "item", "weight")
                )
                by_part[name].append(sorted_csr(user, item, weight, own.shape))
            progress(f"reading {self.folder.name}", number + 1, len(self.partitions))
        matrix = sp.csr_array((data, indices, indptr), shape=shape)
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        parts = {name: sp.csr_array(sp.vstack(blocks, format="csr")) for name, blocks in by_part.items()}
        return {
            "matrix": matrix,
            "users": self.users,
            "items": self.items,
            "time": time,
            "item_info": self.item_info,
            "parts": parts or None,
            "report": self.report,
            "dislikes": None,
        }

    def _read(
        self, facts: Mapping[str, Any], wanted: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], sp.csr_array, NDArray[np.intp]]:
        """The rows of one partition, after its SHA-256 and contents were checked; its matrix, for which pairs
        that stand in several parts are merged; and where each entry stands first among the rows.

        Weights are 1 unless stored.
        """
        path = artifacts.check(self.folder, self.manifest, facts["file"])
        artifact = Artifact(path, self.manifest, tables={"rows": read_table(path, wanted)})
        first_user, shape = facts["first_user"], (facts["users"], len(self.items))
        limits = {"user": (first_user, first_user + shape[0]), "item": (0, shape[1])}
        limits |= {"part": (0, len(PARTS))} if self.manifest["split"] else {}
        with artifact.understood():
            rows = {
                name: artifact.inside(f"column {name!r}", artifact.column("rows", name, "i"), below, least)
                for name, (least, below) in limits.items()
            }
            rows["weight"] = artifact.weights("rows", default=True)
            if "time" in wanted and self.manifest["times"]:
                rows["time"] = artifact.column("rows", "time", "i")
            rows["user"] = rows["user"] - first_user
            pair = rows["user"].astype(np.int64) * shape[1] + rows["item"]
            same = [pair] if "part" not in rows else [pair[rows["part"] == n] for n in range(len(PARTS))]
            if (pair[1:] < pair[:-1]).any() or any((one[1:] == one[:-1]).any() for one in same):
                raise artifact.unsound("its pairs of users and items are not sorted, or stand twice")
            how = self.manifest["duplicates"]
            matrix, first = merge(rows["user"], rows["item"], rows["weight"], shape, how)
            if not np.array_equal(
                np.diff(matrix.indptr), self.user_counts[first_user : first_user + shape[0]]
            ):
                raise artifact.unsound("it does not hold what users.parquet says")
        return rows, matrix, first


def _check(artifact: Artifact, n_users: int) -> None:
    """A manifest whose partitions follow each other, from the first user to the last."""
    manifest, user = artifact.manifest, 0
    if not isinstance(manifest["partitions"], list):
        raise artifact.unsound("it has no list of partitions")
    for number, facts in enumerate(manifest["partitions"]):
        sizes = [
            artifact.checked_number(f"partition {number}: {name}", facts[name], whole=True)
            for name in ("users", "rows", "first_user")
        ]
        if not isinstance(facts["file"], str) or sizes[2] != user:
            raise artifact.unsound(f"its partition {number} does not begin with user {user}")
        user += sizes[0]
    rows = sum(facts["rows"] for facts in manifest["partitions"])
    held = sum(facts["bytes"] for facts in manifest["files"].values())
    if manifest["interactions"] > rows or not fits(rows, 4, held):
        raise artifact.unsound(f"{rows:,} rows do not fit in {held:,} bytes, or are too few")
    if user != n_users:
        raise artifact.unsound(f"its partitions have {user} users and it has {n_users}")
    artifact.number("rows", whole=True)
    words = (manifest["source"], manifest["duplicates"], *manifest["notes"], *manifest["dropped"])
    counted = all(isinstance(count, int) for count in manifest["dropped"].values())
    if not all(isinstance(word, str) for word in words) or not counted:
        raise artifact.unsound("it does not tell how it was prepared")
    if not isinstance(manifest["split"], bool) or not isinstance(manifest["times"], bool):
        raise artifact.unsound("it does not tell which columns it has")
