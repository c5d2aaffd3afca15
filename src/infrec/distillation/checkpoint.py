"""Where a distillation keeps its checkpoints: a run directory like a training's, of a kind of its own."""

from __future__ import annotations

from typing import ClassVar

from infrec.models import checkpoint
from infrec.models.checkpoint import Interrupted, asked_to_stop, fingerprint

__all__ = ["Interrupted", "RunDirectory", "asked_to_stop", "fingerprint"]


class RunDirectory(checkpoint.RunDirectory):
    """A directory that resumes a distillation and nothing else."""

    kind: ClassVar[str] = "distillation checkpoint"
    work: ClassVar[str] = "distillation"
