"""Where a distillation keeps its checkpoints: a run directory like a training's, of a kind of its own.

Several processes have one together: the first one locks, reads and writes it, the others need not even see
it, and a run may go on in another number of processes.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from infrec import checkpoints
from infrec.contents import Artifact
from infrec.errors import ConfigError

if TYPE_CHECKING:
    from infrec.kernels.collectives import Team


class RunDirectory(checkpoints.RunDirectory):
    """A directory that resumes a distillation and nothing else."""

    kind: ClassVar[str] = "distillation checkpoint"
    work: ClassVar[str] = "distillation"

    def __enter__(self) -> Self:
        return super().__enter__() if _team().index == 0 else self

    def save(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if _team().index == 0:
            super().save(facts, arrays)

    def load(self, *, resume: bool, identity: dict[str, Any]) -> Artifact | None:
        team = _team()
        if team.count == 1:
            return super().load(resume=resume, identity=identity)
        _agree(team, identity)
        found = super().load(resume=resume, identity=identity) if team.index == 0 else None
        return self._told(team, found)

    def _told(self, team: Team, found: Artifact | None) -> Artifact | None:
        """The checkpoint that the first process has read, on every process."""
        told = None
        if found is not None:
            shapes = {name: (array.dtype.str, array.shape) for name, array in found.arrays.items()}
            told = {"manifest": dict(found.manifest), "shapes": shapes}
        text = json.dumps(told).encode() if team.index == 0 else b""
        told = json.loads(team.concatenate(np.frombuffer(text, np.uint8)).tobytes())
        if told is None:
            return None
        arrays = {}
        for name, (kind, shape) in told["shapes"].items():
            own = np.zeros(shape) if found is None else found.arrays[name]
            arrays[name] = team.all_sum(own).astype(kind)  # float32 and whole numbers are exact in float64
        return Artifact(self.checkpoint, told["manifest"], arrays)


def _team() -> Team:
    from infrec.distillation import batches

    return batches.team()


def _agree(team: Team, identity: dict[str, Any]) -> None:
    """Refuse processes that were started on different data or with different settings."""
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).digest()
    every = team.concatenate(np.frombuffer(name, np.uint8)).reshape(team.count, -1)
    others = np.flatnonzero((every != every[0]).any(axis=1))
    if len(others):
        raise ConfigError(
            f"process {others[0]} has other data or settings than process 0; start all of them with the same "
            "DATA and the same options."
        )
