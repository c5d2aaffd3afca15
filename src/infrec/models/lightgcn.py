"""LightGCN: embeddings averaged over walks on the graph of users and items (He et al., 2020).

    E⁽ᵏ⁾ = Â E⁽ᵏ⁻¹⁾,   E = (E⁽⁰⁾ + … + E⁽ᴷ⁾) / (K + 1),   score(u, i) = E_u · E_i

Â is the adjacency of the bipartite graph, divided by the square roots of both degrees. With R̂ its block of
users × items, an item's layers are E_i⁽⁰⁾, R̂ᵀ E_u⁽⁰⁾, and from then on R̂ᵀR̂ times the layer two before; and a
user's layer is R̂ times the items' layer before it, so that for all layers together

    E_u = (E_u⁽⁰⁾ + R̂_u S) / (K + 1),   S = E_i⁽⁰⁾ + … + E_i⁽ᴷ⁻¹⁾

needs S and the user's own row of R̂, that is, their history. This is how mini-batches are made cheap, and how
anybody is scored: a known user has an E_u⁽⁰⁾ of their own, a new one the mean of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.kernels import gram
from infrec.models.gradient_model import (
    LAYERS,
    RATE,
    Embeddings,
    GradientModel,
    GradientSettings,
    widened,
    width_of,
)
from infrec.models.mf import cosine
from infrec.search.tunable import takes
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.models.batches import Sizes, Step
    from infrec.models.trainer import Params

_DENSE = 2**28  # entries of R̂ up to which matrix products beat sparse sums (1 GB)


def item_layers(first: Any, from_users: Any, twice: Any, layers: int) -> list[Any]:
    """E_i⁽⁰⁾ … E_i⁽ᴷ⁾: `first` and `from_users` are layers 0 and 1, `twice` multiplies by R̂ᵀR̂."""
    out = [first, from_users]
    while len(out) <= layers:
        out.append(twice(out[-2]))
    return out[: layers + 1]


def normalised(matrix: sp.csr_array, item_degree: NDArray[Any]) -> sp.csr_array:
    """R̂: each weight over the square roots of its user's and its item's degree (sums of weights).

    An item without a degree is in nobody's graph: it says nothing, and its user's degree does not count it.
    """
    known = item_degree > 0
    of_item = np.where(known, 1 / np.sqrt(np.where(known, item_degree, 1.0)), 0.0)
    degree = matrix @ known.astype(np.float64)
    of_user = np.repeat(1 / np.sqrt(np.maximum(degree, 1e-12)), np.diff(matrix.indptr))
    scaled = sp.csr_array(matrix, dtype=np.float32, copy=True)
    scaled.data = (matrix.data * of_user * of_item[matrix.indices]).astype(np.float32)
    return scaled


_GRAPHS: WeakKeyDictionary[Interactions, tuple[sp.csr_array, sp.csr_array]] = WeakKeyDictionary()


def _graph_of(log: Interactions) -> tuple[sp.csr_array, sp.csr_array]:
    """R̂ and its transpose, made once for a log."""
    if log not in _GRAPHS:
        across = normalised(log.matrix, gram.degrees(log.matrix))
        _GRAPHS[log] = across, sp.csr_array(across.T)
    return _GRAPHS[log]


@dataclass(frozen=True)
class Graph(Embeddings):
    """LightGCN as the trainer sees it."""

    layers: int

    def constants(self, sizes: Sizes, log: Interactions) -> Any:
        """R̂, and R̂ᵀR̂ where it is the shorter way, dense where they fit; else the entries of R̂, by user and by
        item."""
        import jax.numpy as jnp

        across, back = _graph_of(log)
        if sizes.users * sizes.items <= _DENSE:
            dense = jnp.asarray(widened(across.toarray(), sizes.users, sizes.items))
            few_users = 2 * sizes.users < sizes.items  # then R̂ᵀ(R̂ x) has fewer operations
            return {"across": dense} if few_users else {"across": dense, "twice": dense.T @ dense}
        return {
            "user": jnp.asarray(np.repeat(np.arange(log.n_users), np.diff(across.indptr)), jnp.int32),
            "item": jnp.asarray(across.indices, jnp.int32),
            "value": jnp.asarray(across.data),
            "user_by_item": jnp.asarray(back.indices, jnp.int32),
            "item_by_item": jnp.asarray(np.repeat(np.arange(log.n_items), np.diff(back.indptr)), jnp.int32),
            "value_by_item": jnp.asarray(back.data),
        }

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        from infrec.models.trainer import bpr, penalty

        users, items, graph = params["users"], params["items"], step.constants
        if "across" in graph:
            across = graph["across"]
            rows = across[step.batch.users]
            twice = (lambda x: graph["twice"] @ x) if "twice" in graph else lambda x: across.T @ (across @ x)
            layers = item_layers(items, across.T @ users, twice, self.layers)
            spread = rows @ sum(layers[: self.layers])
        else:
            to_items, to_users = _sparse(graph, step.sizes)
            layers = item_layers(items, to_items(users), lambda x: to_items(to_users(x)), self.layers)
            spread = to_users(sum(layers[: self.layers]))[step.batch.users]
        own, pairs = users[step.batch.users], step.pairs()
        scores = (own + spread) @ sum(layers).T / (self.layers + 1) ** 2
        return bpr(scores, pairs) + hyper["l2"] * penalty(own, items, pairs)


def _sparse(graph: Mapping[str, Any], sizes: Sizes) -> tuple[Any, Any]:
    """R̂ᵀ x and R̂ x as sums over sorted segments."""
    import jax

    def to_items(x: Any) -> Any:
        each = x[graph["user_by_item"]] * graph["value_by_item"][:, None]
        return jax.ops.segment_sum(each, graph["item_by_item"], sizes.items, indices_are_sorted=True)

    def to_users(x: Any) -> Any:
        each = x[graph["item"]] * graph["value"][:, None]
        return jax.ops.segment_sum(each, graph["user"], sizes.users, indices_are_sorted=True)

    return to_items, to_users


@dataclass(frozen=True)
class LightGCNSettings(GradientSettings):
    """Defaults of LightGCN, and how far a walk goes."""

    rate: float = setting(0.01, "learning rate of Adam", above=0, search=RATE)
    l2: float = setting(
        0.1,
        "weight of half the squared norms of the first embeddings, over the root of the mean degrees",
        least=0,
    )
    layers: int = setting(3, "K, how far embeddings spread", least=1, search=LAYERS)


class LightGCN(GradientModel):
    """The strongest of the pairwise models on sparse logs; anybody is scored by their history."""

    name: ClassVar[str] = "lightgcn"
    settings_type: ClassVar = LightGCNSettings
    settings: LightGCNSettings

    @takes(LightGCNSettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def program(self, log: Interactions) -> Graph:
        return Graph(width_of(self.settings.latent), self.settings.latent, self.settings.layers)

    def hyper(self, log: Interactions) -> dict[str, float]:
        """An embedding reaches a neighbour over the roots of both degrees: in a dense graph it must be larger
        to say as much, and the same penalty would weigh more."""
        users, items = (max(1, int(np.count_nonzero(n))) for n in (log.user_counts, log.item_counts))
        degree = float(log.matrix.sum()) / np.sqrt(users * items)
        return {**super().hyper(log), "l2": self.settings.l2 / degree}

    def batch(self, log: Interactions) -> int | None:
        """Every step goes over the whole graph: fewer and larger ones."""
        return max(128, -(-log.n_users // 12 // 128) * 128)

    def _size(self, log: Interactions) -> int:
        return (log.n_users + log.n_items) * width_of(self.settings.latent)

    def _adopt(
        self, log: Interactions, trained: Mapping[str, NDArray[np.float32]]
    ) -> dict[str, NDArray[Any]]:
        latent, k = self.settings.latent, self.settings.layers
        users = trained["users"][: log.n_users, :latent]
        first = trained["items"][: log.n_items, :latent]
        across, back = _graph_of(log)
        layers = item_layers(first, back @ users, lambda x: back @ (across @ x), k)
        kept = {
            "items": np.asarray(sum(layers), np.float32) / np.float32(k + 1),
            "spread": np.asarray(sum(layers[:k]), np.float32) / np.float32(k + 1),
            "mean": users[log.user_counts > 0].mean(axis=0) / np.float32(k + 1),
            "degree": gram.degrees(log.matrix).astype(np.float32),
        }
        return kept if log.synthetic_users else {"users": users / np.float32(k + 1), **kept}

    def _shapes(self, log: Interactions) -> Iterable[tuple[str, tuple[int, ...]]]:
        latent = self.settings.latent
        yield from ((name, (log.n_items, latent)) for name in ("items", "spread"))
        yield from (("mean", (latent,)), ("degree", (log.n_items,)))

    @property
    def knows_users(self) -> bool:
        return "users" in self.parameters

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        return self._score_known(histories, None)

    def _score_known(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        p = self.parameters
        spread = normalised(histories, p["degree"]) @ p["spread"]
        own = p["mean"]
        if known is not None:
            learnt = (known >= 0) & (self.log.user_counts[known] > 0)
            own = np.where(learnt[:, None], p["users"][known], own)
        return (own + spread) @ p["items"].T

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Cosine of the items' embeddings."""
        return cosine(self.parameters["items"], item)
