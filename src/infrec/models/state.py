"""A fitted model as a value: settings, log and state, which no later fit changes.

    @dataclass(frozen=True, eq=False)
    class EASEState(State):
        weights: NDArray[np.float32] = stored("items", "items")

A state says which of its arrays are saved, and of which shape they are read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.contents import Artifact
    from infrec.data import Interactions
    from infrec.search import Candidate
    from infrec.settings import Settings


def stored(*shape: str) -> Any:
    """Declare a field of a state that is saved as an array of its name.

    Args:
        shape: The length of each axis: "users", "items" or the name of a setting.
    """
    return field(metadata={"shape": shape})


@dataclass(frozen=True, eq=False)
class State:
    """The numbers that a model learnt from a log; some need nothing beside the log itself."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to save, by name."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.metadata}

    @classmethod
    def read(cls, artifact: Artifact, settings: Settings, log: Interactions) -> Self:
        """The state from what `arrays` gave, after checking that it fits the settings and the log."""
        lengths = {"users": log.n_users, "items": log.n_items, **settings.to_dict()}
        return cls(
            **{
                one.name: artifact.array(one.name, *(lengths[axis] for axis in one.metadata["shape"]))
                for one in dataclasses.fields(cls)
                if one.metadata
            }
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """Result of a fit.

    Args:
        settings: The settings in use; none of them is "auto".
        log: The log that the model knows: its vocabularies and histories.
        state: What was learnt.
        about: What the model decided by itself, and why.
        candidates: The settings that were tried.
    """

    settings: Any
    log: Interactions
    state: Any
    about: dict[str, Any] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()
