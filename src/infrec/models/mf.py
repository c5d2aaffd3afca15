"""MF: matrix factorisation with item biases, trained to rank (Rendle et al., 2009).

    score(u, i) = b_i + p_u · q_i

A user's bias and a global one would cancel in the pairwise loss and in every ranking, so there are none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.contents import Artifact
from infrec.data import Interactions
from infrec.models.gradient_model import (
    DROPOUT,
    DropoutSettings,
    Embeddings,
    GradientModel,
    GradientState,
    width_of,
)
from infrec.search.tunable import takes
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.models.batches import Sizes, Step
    from infrec.models.trainer import Params


_RIDGE = 1e-3  # of the map that folds users in, relative to its mean diagonal


class Factors(Embeddings):
    """MF as the trainer sees it."""

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {**super().start(sizes, log, rng), "bias": np.zeros(sizes.items, np.float32)}

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        from infrec.models.trainer import bpr, dropped, penalty

        users, items, pairs = params["users"][step.batch.users], params["items"], step.pairs()
        scores = dropped(users, hyper["dropout"], step.stream(1)) @ items.T + params["bias"]
        return bpr(scores, pairs) + hyper["l2"] * penalty(users, items, pairs)


class FoldsIn(GradientModel):
    """A model with a learnt vector for each training user, and a way to one for everybody else.

    The way is a linear map, by ridge on the training users, from what their histories say of them (the sum
    of their items' vectors over the square root of how many, and a constant) to what was learnt for them:
    closed form, and the scores it leads to are as good as the learnt ones'. Items that nobody had in training
    say nothing: their vectors are where chance and the negatives left them.
    """

    @abstractmethod
    def _item_vectors(self) -> NDArray[np.float32]:
        """[items, k], in which histories are summed up."""

    @property
    def knows_users(self) -> bool:
        return "users" in self.parameters and not self.log.synthetic_users

    def _vectors(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        """A vector for each user: the learnt one where there is one, else folded in."""
        if known is None:
            known = np.full(histories.shape[0], -1)
        learnt = known >= 0
        learnt[learnt] = self.log.user_counts[known[learnt]] > 0  # nothing was learnt for the others
        if learnt.all():
            return self.parameters["users"][known]
        out = np.empty((histories.shape[0], self._fold().shape[1]), np.float32)
        out[~learnt] = self._summed(histories[np.flatnonzero(~learnt)]) @ self._fold()
        if learnt.any():
            out[learnt] = self.parameters["users"][known[learnt]]
        return out

    def _fold(self) -> NDArray[np.float32]:
        """The map, solved when it is first asked for."""
        if "fold" not in self.parameters:
            rows = np.flatnonzero(self.log.user_counts)
            said = self._summed(self.log.matrix[rows]).astype(np.float64)
            square = said.T @ said
            square.flat[:: len(square) + 1] += _RIDGE * np.trace(square) / len(square)
            solved = np.linalg.solve(square, said.T @ self.parameters["users"][rows])
            self.parameters["fold"] = solved.astype(np.float32)
        return self.parameters["fold"]

    def _summed(self, histories: sp.csr_array) -> NDArray[np.float32]:
        known = (self.log.item_counts > 0).astype(np.float32)
        total = np.maximum(histories @ known, 1e-12)
        said = histories @ (known[:, None] * self._item_vectors()) / np.sqrt(total)[:, None]
        return np.hstack([said, np.ones((len(total), 1), np.float32)])

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        return self._score_known(histories, None)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """With the map; without the users where they only stand for others."""
        _ = self._fold()
        return {name: array for name, array in self.parameters.items() if name != "users" or self.knows_users}

    def _restore(self, artifact: Artifact, log: Interactions) -> GradientState:
        state = super()._restore(artifact, log)
        width = self._user_width
        state.parameters["fold"] = artifact.array("fold", width + 1, width)
        return state


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

    @takes(MFSettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def program(self, log: Interactions) -> Factors:
        return Factors(width_of(self.settings.latent), self.settings.latent)

    def _size(self, log: Interactions) -> int:
        return (log.n_users + log.n_items) * width_of(self.settings.latent)

    def _adopt(self, log: Interactions, trained: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        users = trained["users"][: log.n_users, : self.settings.latent]
        return {"users": users, **super()._adopt(log, trained)}

    def _shapes(self, log: Interactions) -> Iterable[tuple[str, tuple[int, ...]]]:
        return ("items", (log.n_items, self.settings.latent)), ("bias", (log.n_items,))

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
