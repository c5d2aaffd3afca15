"""A summary is a log: a few synthetic users over the items of the source, and how they were made.

On disk (an artifact of the kind `summary`): `interactions.parquet` with user, item, weight; `items.parquet`
with the whole item vocabulary of the source, because the kernel divides by the number of items;
`users.parquet` with all users where some have no interactions, because λ is relative to the mean over users,
or where interactions are sorted by item; and
the λ grid and everything about the distillation in the manifest.
"""

from __future__ import annotations

import builtins
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from infrec import artifacts
from infrec.contents import Artifact, with_info
from infrec.data import SUMMARY_REG_GRID
from infrec.data.columns import ReadOptions
from infrec.data.interactions import Interactions, canonical
from infrec.data.vocabulary import Vocabulary
from infrec.errors import ArtifactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("summary", "sample")
LEVELS = 16  # so many different weights take half a byte each, as places in a dictionary
_OF_THE_FORMAT = (
    *("format", "format_version", "kind", "versions", "files"),
    *("users", "items", "interactions", "discrete"),
)
_NUMBERS = (  # of the manifest: name, whether it is whole, and the least it may be
    *(("represents", True, 1), ("periods", True, 1), ("steps", True, 0), ("best_step", True, 0)),
    *(("seed", True, 0), ("seconds", False, 0), ("ms_per_step", False, 0)),
)
_FORMS: Mapping[str, type] = {
    **dict.fromkeys(("settings", "validation", "guarantee", "set_aside", "reading"), dict),
    **dict.fromkeys(("mode", "start", "criterion", "first_start", "size_reason"), str),
    **dict.fromkeys(("history",), list),
}


@dataclass(frozen=True, eq=False)
class Summary(Interactions):
    """`Interactions` of synthetic (or sampled) users, so that any model fits it as it fits a log.

    Args:
        matrix, users, items, time, item_info, parts, report, dislikes: As of any `Interactions`.
        about: Settings, seed, source, validation, time: the manifest's facts.
        kind: `summary` when distilled, `sample` when chosen by a sampler.
    """

    about: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "summary"

    synthetic_users: ClassVar[bool] = True  # sampled ones are known by a part of the log alone

    @classmethod
    def of(cls, log: Interactions, *, about: Mapping[str, Any] | None = None, kind: str = "summary") -> Self:
        """Any log as a summary or a sample. Times and parts are not saved with it.

        Args:
            log: The users, items and interactions.
            about: How it was made; what the manifest will hold.
            kind: `summary` or `sample`.
        """
        kept = {name: getattr(log, name) for name in ("time", "item_info", "parts")}
        return cls(log.matrix, log.users, log.items, **kept, about=dict(about or {}), kind=kind)

    @classmethod
    def of_array(
        cls, x_hat: NDArray[np.floating[Any]], source: Interactions, about: Mapping[str, Any]
    ) -> Self:
        """A matrix of synthetic users over the items of `source`.

        Args:
            x_hat: Weights, synthetic users × items.
            source: The log whose items they are.
            about: How it was made.
        """
        return cls(
            canonical(sp.csr_array(x_hat)),
            Vocabulary.numbered(len(x_hat)),
            source.items,
            item_info=source.item_info,
            about=dict(about),
        )

    @property
    def discrete(self) -> bool:
        """Whether every interaction has the weight 1."""
        return not self.weighted

    @property
    def reg(self) -> float | None:
        """The λ of ∞-AE that was best on validation."""
        return self.about.get("reg")

    @property
    def reg_grid(self) -> tuple[float, ...]:
        """The λ values to try for ∞-AE on this summary."""
        return tuple(self.about.get("reg_grid", SUMMARY_REG_GRID))

    @cached_property
    def bytes(self) -> int:
        """The size of `interactions.parquet`."""
        return len(self.parquet())

    @cached_property
    def _has_few_levels(self) -> bool:
        return len(np.unique(self.matrix.data)) <= LEVELS

    def parquet(self) -> builtins.bytes:
        """`interactions.parquet`: sorted, so that differences take few bits.

        By user and item; where weights have few levels, by item and user, which takes a tenth less: there are
        fewer users than items.
        """
        table = self.to_table().select(["user", "item", "weight"])
        encodings = {
            name: "DELTA_BINARY_PACKED"
            for name in ("user", "item")
            if pa.types.is_integer(table.schema.field(name).type)
        }
        few = self._has_few_levels
        if self.weighted and few:
            table = table.take(np.argsort(self.matrix.indices, kind="stable"))
        elif self.weighted:
            encodings["weight"] = "BYTE_STREAM_SPLIT"
        rest = [name for name in table.column_names if name not in encodings]
        sink = io.BytesIO()
        pq.write_table(
            table,
            sink,
            compression="zstd",
            compression_level=19 if few else 9,
            use_dictionary=rest or False,
            column_encoding=encodings,
            write_statistics=False,
            store_schema=False,
        )
        return sink.getvalue()

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as a directory; an older one of ours is replaced in one step.

        Args:
            path: The directory.
        """
        facts = {
            "users": self.n_users,
            "items": self.n_items,
            "interactions": self.n_interactions,
            "discrete": self.discrete,
            "reg_grid": list(self.reg_grid),
            **{name: value for name, value in self.about.items() if name != "reg_grid"},
        }
        tables = {"items": with_info(pa.table({"item": self.items.ids}), self.item_info)}
        # interactions.parquet does not name everybody, or not in their order.
        if not self.user_counts.all() or (self.weighted and self._has_few_levels):
            tables["users"] = pa.table({"user": self.users.ids})
        artifacts.write(
            path,
            kind=self.kind,
            manifest=facts,
            tables=tables,
            files={"interactions.parquet": self.parquet()},
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a summary or a sample back; every byte is checked.

        Args:
            path: The directory.
        """
        return cls.from_artifact(artifacts.read(path))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """A summary or a sample from what was read of its directory.

        Args:
            artifact: From `infrec.artifacts.read`.
        """
        if artifact.kind not in KINDS:
            raise ArtifactError(f"{artifact.path} holds a {artifact.kind}; expected a summary or a sample.")
        with artifact.understood():
            log = _log(artifact)
            artifact.agree(users=log.n_users, items=log.n_items, interactions=log.n_interactions)
            about = {name: value for name, value in artifact.manifest.items() if name not in _OF_THE_FORMAT}
            _check(artifact, about)
            return cls.of(log, about=about, kind=artifact.kind)

    def __repr__(self) -> str:
        return (
            f"Summary({self.n_users:,} users × {self.n_items:,} items, {self.n_interactions:,} interactions, "
            f"{'discrete' if self.discrete else 'weighted'})"
        )


def _log(artifact: Artifact) -> Interactions:
    items, pairs = Vocabulary(artifact.ids("items", "item")), artifact.tables["interactions"]
    ids = pairs.column("user").combine_chunks()
    users = Vocabulary.of(artifact.ids("users", "user") if "users" in artifact.tables else ids.unique())
    row, column = users.positions(ids), items.positions(pairs.column("item").combine_chunks())
    for name, numbers in (("item", column), ("user", row)):
        if (numbers < 0).any():
            raise artifact.unsound(f"interactions.parquet names a {name} that {name}s.parquet lacks")
    matrix = sp.csr_array((artifact.weights("interactions"), (row, column)), shape=(len(users), len(items)))
    return Interactions(canonical(matrix), users, items, item_info=artifact.about_items())


def _check(artifact: Artifact, about: Mapping[str, Any]) -> None:
    """The numbers of a manifest that something is computed from, where they are there."""
    grid = about.get("reg_grid", SUMMARY_REG_GRID)
    for reg in (*grid, *(() if about.get("reg") is None else (about["reg"],))):
        artifact.checked_number("λ", reg)
    for name, whole, least in _NUMBERS:
        if name in about and (about[name] is not None or name == "seed"):
            artifact.checked_number(name, about[name], whole=whole, least=least)
    for name, kind in _FORMS.items():
        if about.get(name) is not None and not isinstance(about[name], kind):
            raise artifact.unsound(f"{name} is {about[name]!r}, not what infrec writes there")
    if about.get("set_aside") is not None:
        artifact.number("set_aside", "seed", whole=True)
        if not 0 < artifact.number("set_aside", "share") < 1:
            raise artifact.unsound("the share that was set aside is not between 0 and 1")
    if (promise := about.get("guarantee")) is not None:
        for name in ("delta", "noise_multiplier", *(() if promise["epsilon"] is None else ("epsilon",))):
            artifact.number("guarantee", name)
        if not isinstance(promise["public_items"], bool) or not 0 < promise["delta"] < 1:
            raise artifact.unsound("its guarantee does not say what it promises")
    source = about.get("source")
    if isinstance(source, Mapping) and source.get("users") is not None:
        artifact.checked_number("source.users", source["users"], whole=True)
    if isinstance(source, Mapping) and "fingerprint" in source:
        for name in ("items", "interactions"):
            artifact.number("source", name, whole=True)
        known = [source["fingerprint"], *source.get("earlier", ())]
        if not all(isinstance(each, str) for each in known):
            raise artifact.unsound("its source has a fingerprint that is no text")
    ReadOptions.from_dict(about.get("reading") or {})
