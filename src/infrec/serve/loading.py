"""From a directory to a served model: one that was saved, or ∞-AE fitted here on a summary or a sample.

Nothing here may import JAX: the service scores with numpy alone.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec import artifacts
from infrec.contents import Artifact
from infrec.errors import ArtifactError, ConfigError, InfrecError
from infrec.serve.served import Served

if TYPE_CHECKING:
    from infrec.models import Recommender

_TRIES = 3  # a directory that is replaced while it is read does not match its checksums the first time


@dataclass(frozen=True)
class Source:
    """A model to be served: the name it answers to, and the directory it comes from."""

    name: str
    path: Path


def sources(arguments: Sequence[str]) -> tuple[Source, ...]:
    """`PATH` or `NAME=PATH`; without a name, the directory's own."""
    found: list[Source] = []
    for text in arguments:
        name, equals, path = text.partition("=")
        if not equals or "/" in name or Path(text).exists():
            name, path = Path(text).resolve().name, text
        if not name or not path:
            raise ConfigError(f"{text!r} names no model; expected a directory, or NAME=DIRECTORY.")
        if any(one.name == name for one in found):
            raise ConfigError(f"two models are named {name!r}; give one another name: other={path}.")
        found.append(Source(name, Path(path)))
    return tuple(found)


def fingerprint(path: Path) -> tuple[object, ...] | None:
    """What changes when the directory is replaced, or a file that was still on its way to it arrives; None
    when there is no model."""
    try:
        files = {entry.name: entry.stat() for entry in os.scandir(path)}
    except OSError:
        return None
    if artifacts.MANIFEST not in files:
        return None
    return tuple(sorted((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in files.items()))


def load(source: Source) -> Served:
    """Read, check, fit where needed, and try the model once."""
    for left in reversed(range(_TRIES)):
        before = fingerprint(source.path)
        try:
            artifact = artifacts.read(source.path)
            break
        except ArtifactError:
            if not left or fingerprint(source.path) == before:
                raise
    model = _model(artifact)
    kind = "log" if artifact.kind == "model" else artifact.kind
    served = Served(source.name, artifacts.seal(artifact.manifest)[:16], model, kind)
    _try_out(model)
    return served


def _model(artifact: Artifact) -> Recommender:
    from infrec import models

    try:
        if artifact.kind == "model":
            return models.from_artifact(artifact)
        from infrec.data import Summary
        from infrec.models import InfiniteAE

        summary = Summary.from_artifact(artifact)
        # The λ that was best on validation when it was made; a sample has none and chooses on itself.
        return InfiniteAE(reg="auto" if summary.reg is None else summary.reg).fit(summary)
    except ImportError as failure:
        raise _needs_jax(artifact) from failure


def _try_out(model: Recommender) -> None:
    """One score: it shows whether the model needs JAX, and fills what it keeps between requests."""
    item = int(np.argmax(model.log.item_counts))
    row = sp.csr_array(([1.0], ([0], [item])), shape=(1, model.log.n_items), dtype=np.float32)
    try:
        scores = model.score(row)
    except ImportError as failure:
        raise InfrecError(
            f"the model {model.name} needs JAX to score, and the service scores with numpy alone; "
            "serve one that does not, such as infinite-ae or ease."
        ) from failure
    if not np.isfinite(scores).all():
        raise ArtifactError("the model gives scores that are not finite; fit it again with a larger reg.")


def _needs_jax(artifact: Artifact) -> InfrecError:
    what = artifact.manifest.get("model", artifact.kind)
    return InfrecError(
        f"{artifact.path} holds a model of the type {what}, which needs JAX, and the service scores with "
        "numpy alone; serve one that does not, such as infinite-ae or ease."
    )


class _NoJax(importlib.abc.MetaPathFinder):
    """Refuses to find JAX, whoever asks."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise ImportError(f"the service does not import {name}.")


def forbid_jax() -> None:
    """From here on this process cannot import JAX, and solves on the CPU."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    if not any(isinstance(finder, _NoJax) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoJax())
