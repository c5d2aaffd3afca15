"""MF: matrix factorisation with item biases, trained to rank (Rendle et al., 2009).

    score(u, i) = b_i + p_u · q_i

A user's bias and a global one would cancel in the pairwise loss and in every ranking, so there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.gradient_model import DROPOUT, DropoutSettings, FoldsIn, normal, widened, width_of
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.models.batches import Sizes
    from infrec.models.trainer import Params, Step


@dataclass(frozen=True)
class Factors:
    """The trainer's view: user and item factors of `width` columns, of which `latent` are in use."""

    width: int
    latent: int = field(compare=False)  # changes no compiled function

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        users = normal(rng, (log.n_users, self.latent), 0.1)
        items = normal(rng, (log.n_items, self.latent), 0.1)
        return {
            "users": widened(users, sizes.users, self.width),
            "items": widened(items, sizes.items, self.width),
            "bias": np.zeros(sizes.items, np.float32),
        }

    def constants(self, sizes: Sizes, log: Interactions) -> Any:
        return ()

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        from infrec.models.trainer import bpr, dropped, penalty

        users, items, pairs = params["users"][step.batch.users], params["items"], step.pairs()
        scores = dropped(users, hyper["dropout"], step.stream(1)) @ items.T + params["bias"]
        return bpr(scores, pairs) + hyper["l2"] * penalty(users, items, pairs)


@dataclass(frozen=True)
class MFSettings(DropoutSettings):
    """Defaults of MF."""

    l2: float = setting(0.01, "weight of half the squared norms of what a pair uses", least=0)
    dropout: float = setting(
        0.0, "share of the user vectors' values that a step leaves out", least=0, below=1, search=DROPOUT
    )


class MF(FoldsIn):
    """Good with many interactions per user; knows its training users, folds others in."""

    name: ClassVar[str] = "mf"
    settings_type: ClassVar = MFSettings
    settings: MFSettings

    def program(self, log: Interactions) -> Factors:
        return Factors(width_of(self.settings.latent), self.settings.latent)

    def _size(self, log: Interactions) -> int:
        return (log.n_users + log.n_items) * width_of(self.settings.latent)

    def _adopt(self, log: Interactions, trained: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        latent = self.settings.latent
        return {
            "users": trained["users"][: log.n_users, :latent],
            "items": trained["items"][: log.n_items, :latent],
            "bias": trained["bias"][: log.n_items],
        }

    def _shapes(self, log: Interactions) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield "items", (log.n_items, self.settings.latent)
        yield "bias", (log.n_items,)

    def _item_vectors(self) -> NDArray[np.float32]:
        return self.parameters["items"]

    def _score_known(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        return self._vectors(histories, known) @ self.parameters["items"].T + self.parameters["bias"]

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Cosine of the item factors."""
        return cosine(self.parameters["items"], item)


def cosine(vectors: NDArray[np.float32], of: int) -> NDArray[np.float32]:
    """The cosine between one vector and all."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
    return (vectors @ vectors[of]) / (lengths * lengths[of])
