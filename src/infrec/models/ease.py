"""EASE: a linear item-to-item model with a zero diagonal, in closed form (Steck, 2019).

    P = (XᵀX + λ I)⁻¹,   B = I − P / diag(P)  with a zero diagonal,   score(x) = x B

With few users (a summary, a sample) the same B comes from a system of their size: P = (I − H) / λ with
H = Xᵀ (XXᵀ + λ I)⁻¹ X, so B_ij = H_ij / (1 − H_jj) off the diagonal.

The paper's EASE, with λ from {1, 10, 100, 1K, 10K}, comes out lower than what λ = 1000 gives here
(docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg.blas as blas
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.data import Interactions
from infrec.errors import InfrecError, SolveError
from infrec.kernels import gram, ridge
from infrec.models.base import Fitted, Recommender, State, stored
from infrec.progress import Progress, silent
from infrec.settings import AUTO, Auto, Settings, setting

_FEW = 3  # times as many items as users, and the users' system is cheaper


@dataclass(frozen=True)
class EASESettings(Settings):
    """EASE has one hyper-parameter."""

    reg: float | Auto = setting(
        AUTO,
        "λ, added to the diagonal of XᵀX as it is",
        least=0,
        search=(1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000),
        fallback=100,
    )


@dataclass(frozen=True, eq=False)
class EASEState(State):
    """B, items × items: column i holds what each item of a history adds to the score of item i."""

    weights: NDArray[np.float32] = stored("items", "items")


class EASE(Recommender):
    """One hyper-parameter; the fit depends on the number of items, or of users where they are few."""

    name: ClassVar[str] = "ease"
    settings_type: ClassVar = EASESettings
    state_type: ClassVar = EASEState
    settings: EASESettings
    state: EASEState

    def path(
        self, interactions: Interactions, variants: Sequence[Mapping[str, Any]], progress: Progress = silent
    ) -> Iterator[tuple[dict[str, Any], Self | InfrecError]]:
        """One gram matrix for all λ: of the items, or of the users where that is much smaller."""
        self.check_size(interactions)
        x = interactions.matrix
        few = _FEW * x.shape[0] <= x.shape[1]
        progress("gram matrix", 0, 1)
        by_users = gram.kernel_matrix(gram.Linear(), x) if few else None
        by_items = ridge.ItemRidge(x, scale="absolute")
        progress("gram matrix", 1, 1)
        for changes in variants:
            model = self.with_settings(**changes)
            try:
                reg = float(model.settings.reg)
                if by_users is None:
                    weights = by_items.weights(gram.Linear(), reg)
                else:
                    factor = ridge.factorise(by_users, reg=reg, scale="absolute", rows=x)
                    weights = _from_users(factor, x)
            except InfrecError as failure:
                yield dict(changes), failure
            else:
                fitted = Fitted(model.settings, interactions, EASEState(weights))
                yield dict(changes), model.with_fit(fitted)

    @property
    def weights(self) -> NDArray[np.float32]:
        """B, items × items: column i holds what each item of a history adds to the score of item i."""
        return self.state.weights

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        return gram.sparse_times(histories, self.weights)

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """The weight of each item in the score of this one: its column of B."""
        return self.weights[:, item]

    def check_size(self, interactions: Interactions) -> None:
        d = interactions.n_items
        machine.require_memory(
            4 * 4 * d * d,  # the gram matrix, its factor, and the best and the current B
            f"EASE over {d:,} items",
            "keep fewer items, use the model 'infinite-ae', whose size depends on the users, "
            "or a machine with more memory",
        )


def _from_users(factor: ridge.Factor, x: sp.csr_array) -> NDArray[np.float32]:
    """B from the Cholesky factor of XXᵀ + λ I."""
    (trtrs,) = lapack.get_lapack_funcs(("trtrs",), (factor.upper,))
    right = np.asfortranarray(x.toarray(), np.float32)
    half, _ = trtrs(factor.upper, right, lower=False, trans=1, overwrite_b=True)
    explained = blas.ssyrk(1.0, half, trans=1)  # H, above the diagonal
    gram.mirror(explained)
    left = 1 - np.diagonal(explained)
    least = 4 * np.sqrt(len(half)) * np.finfo(np.float32).eps
    if not (left > least).all():
        raise SolveError(
            f"{int((~(left > least)).sum())} items follow from the others but for rounding errors "
            f"(reg={factor.shift:g}, {len(half)} users); use a larger reg."
        )
    weights = explained.T  # the same symmetric matrix, in C order
    weights /= left[None, :]
    np.fill_diagonal(weights, 0.0)
    return weights
