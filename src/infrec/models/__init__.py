"""Anything that can be asked for scores. Models are imported when first used, by class or by name."""

from __future__ import annotations

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any

from infrec.errors import ArtifactError, ConfigError
from infrec.registry import MODELS

if TYPE_CHECKING:  # `as`: type checkers do not read `__all__` where it is computed
    from infrec.contents import Artifact
    from infrec.models.base import Recommender as Recommender
    from infrec.models.bias import BiasOnly as BiasOnly
    from infrec.models.ease import EASE as EASE
    from infrec.models.explanation import Explanation as Explanation
    from infrec.models.infinite_ae import InfiniteAE as InfiniteAE
    from infrec.models.infinite_ae_plus import InfiniteAEPlus as InfiniteAEPlus
    from infrec.models.lightgcn import LightGCN as LightGCN
    from infrec.models.mf import MF as MF
    from infrec.models.mvae import MVAE as MVAE
    from infrec.models.neumf import NeuMF as NeuMF
    from infrec.models.popularity import PopRec as PopRec
    from infrec.search.criterion import Candidate as Candidate

_CLASSES = {model.kind: model.module for model in MODELS.values()} | {
    "Recommender": "infrec.models.base",
    "Candidate": "infrec.search.criterion",
    "Explanation": "infrec.models.explanation",
}
NAMES: tuple[str, ...] = tuple(MODELS)

__all__ = ["NAMES", "class_of", "create", "from_artifact", "load", *_CLASSES]


def class_of(name: str) -> type[Recommender]:
    """The class of a model's name.

    Args:
        name: One of `NAMES`, in small letters or capitals.
    """
    name = name.lower()
    if name not in MODELS:
        raise ConfigError(f"there is no model {name!r}; expected one of {', '.join(NAMES)}.")
    model = MODELS[name]
    return getattr(importlib.import_module(model.module), model.kind)


def create(name: str, **settings: Any) -> Recommender:
    """An unfitted model by its name.

    Args:
        name: One of `NAMES`, in small letters or capitals.
        settings: Settings of the model, by name.
    """
    return class_of(name)(**settings)


def load(path: str | PathLike[str]) -> Recommender:
    """A fitted model from its directory, whichever model it is.

    Args:
        path: The directory that `save` wrote.
    """
    from infrec import artifacts

    return from_artifact(artifacts.read(path, kind="model"))


def from_artifact(artifact: Artifact) -> Recommender:
    """A fitted model from what was read of its directory.

    Args:
        artifact: From `infrec.artifacts.read`.
    """
    name = artifact.manifest.get("model")
    if not isinstance(name, str) or name not in MODELS:
        raise ArtifactError(
            f"{artifact.path} holds a model named {name!r}, which this version of infrec does not know "
            f"(known: {', '.join(NAMES)}); install a newer infrec."
        )
    return class_of(name).from_artifact(artifact)


if not TYPE_CHECKING:  # with it, type checkers would take any name for one of these

    def __getattr__(name):
        if name not in _CLASSES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_CLASSES[name]), name)
