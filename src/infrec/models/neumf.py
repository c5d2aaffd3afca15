"""NeuMF: a product and a small network, side by side, on the embeddings of user and item (He et al., 2017).

    score(u, i) = b_i + h · (p_u ⊙ q_i) + g · MLP([p'_u, q'_i])

trained with the pairwise loss of MF. The network's first layer is a sum of a part of the user and a part of
the item, so a user's scores for all items cost one addition each before the second layer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.gradient_model import (
    DROPOUT,
    LATENT,
    LAYERS,
    DropoutSettings,
    Embeddings,
    normal,
    widened,
    width_of,
)
from infrec.models.mf import FoldsIn, cosine
from infrec.search.tunable import takes
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.models.batches import Sizes, Step
    from infrec.models.trainer import Params

_BLOCK = 128  # users that a compiled function scores at a time
_ENTRIES = 2**20  # numbers of the first layer that numpy has at a time


@dataclass(frozen=True)
class Tower(Embeddings):
    """NeuMF as the trainer sees it. Layer k of the network has latent / 2ᵏ units."""

    layers: int

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        width, latent = self.width, self.latent
        out: dict[str, np.ndarray] = {"bias": np.zeros(sizes.items, np.float32)}
        for name in ("users", "users_mlp"):
            out[name] = self.drawn(rng, log.n_users, sizes.users)
        for name in ("items", "items_mlp"):
            out[name] = self.drawn(rng, log.n_items, sizes.items)
        out["product"] = widened(np.ones(latent), width)
        before = latent
        for k in range(1, self.layers + 1):
            units, room = max(1, latent >> k), max(1, width >> k)
            scale = np.sqrt(2 / (before if k > 1 else 2 * latent))  # He et al.: what a ReLU keeps
            for name in ("user1", "item1") if k == 1 else (f"layer{k}",):
                weight = normal(rng, (before, units), scale)
                out[name] = widened(weight, max(1, width >> (k - 1)), room)
            out[f"bias{k}"] = np.zeros(room, np.float32)
            before = units
        out["network"] = widened(normal(rng, (before,), np.sqrt(1 / before)), max(1, width >> self.layers))
        return out

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        from infrec.models.trainer import dropped, penalty

        pairs, own = step.pairs(), step.batch.users
        users, items = params["users"][own], params["items"]
        product = (users * params["product"]) @ items.T + params["bias"]
        of_users, of_items = params["users_mlp"][own] @ params["user1"], params["items_mlp"] @ params["item1"]

        def score(item: Any, key: Any) -> Any:
            hidden = jnp.maximum(of_users[pairs.row] + of_items[item] + params["bias1"], 0)
            hidden = dropped(hidden, hyper["dropout"], key)
            hidden = upper_layers(params, hidden, self.layers, jnp.maximum)
            return product.reshape(-1)[pairs.row * product.shape[1] + item] + hidden @ params["network"]

        difference = score(pairs.positive, step.stream(1)) - score(pairs.negative, step.stream(2))
        ranking = jnp.sum(pairs.weight * jax.nn.softplus(-difference))
        # The network's weights too: they could grow while the embeddings shrink, and nothing were gained.
        size = penalty(users, items, pairs) + penalty(params["users_mlp"][own], params["items_mlp"], pairs)
        shared = ["product", "network", "user1", "item1", *(f"layer{k}" for k in range(2, self.layers + 1))]
        size += 0.5 * sum(jnp.sum(params[name] ** 2) for name in shared)
        return ranking + hyper["l2"] * size


def upper_layers(params: Mapping[str, Any], hidden: Any, layers: int, maximum: Any) -> Any:
    """The network above its first layer; `maximum` is numpy's or JAX's."""
    for k in range(2, layers + 1):
        hidden = maximum(hidden @ params[f"layer{k}"] + params[f"bias{k}"], 0)
    return hidden


def all_scores(params: Mapping[str, Any], vectors: Any, layers: int, maximum: Any) -> Any:
    """Scores of users, given by both their vectors, for all items."""
    users, users_mlp = vectors
    product = (users * params["product"]) @ params["items"].T + params["bias"]
    of_items = params["items_mlp"] @ params["item1"] + params["bias1"]
    hidden = maximum((users_mlp @ params["user1"])[:, None, :] + of_items[None, :, :], 0)
    return product + upper_layers(params, hidden, layers, maximum) @ params["network"]


@cache
def _compiled(layers: int) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda params, vectors: all_scores(params, vectors, layers, jnp.maximum))


@dataclass(frozen=True)
class NeuMFSettings(DropoutSettings):
    """Defaults of NeuMF, and the depth of its network."""

    latent: int = setting(
        64, "numbers per user and item, for the product and again for the network", least=1, search=LATENT
    )
    l2: float = setting(
        0.003, "weight of half the squared norms of what a pair uses, the network included", least=0
    )
    dropout: float = setting(
        0.0,
        "share of the network's first hidden units that a step leaves out",
        least=0,
        below=1,
        search=DROPOUT,
    )
    layers: int = setting(2, "of the network, each half as wide as the one before", least=1, search=LAYERS)


class NeuMF(FoldsIn):
    """MF with a learnt interaction; knows its training users, folds others in."""

    name: ClassVar[str] = "neumf"
    settings_type: ClassVar = NeuMFSettings
    settings: NeuMFSettings

    @takes(NeuMFSettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def program(self, log: Interactions) -> Tower:
        return Tower(width_of(self.settings.latent), self.settings.latent, self.settings.layers)

    def _size(self, log: Interactions) -> int:
        return 2 * (log.n_users + log.n_items) * width_of(self.settings.latent)

    def _adopt(self, log: Interactions, trained: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Both vectors of a user side by side; widths stay padded, as the network's matrices have them."""
        users = np.hstack([trained["users"], trained["users_mlp"]])[: log.n_users]
        return {"users": users, **super()._adopt(log, trained)}

    def _shapes(self, log: Interactions) -> Iterable[tuple[str, tuple[int, ...]]]:
        n_items, width = log.n_items, width_of(self.settings.latent)
        yield from (("items", (n_items, width)), ("items_mlp", (n_items, width)), ("bias", (n_items,)))
        yield "product", (width,)
        for k in range(1, self.settings.layers + 1):
            shape = max(1, width >> (k - 1)), max(1, width >> k)
            yield from ((name, shape) for name in (("user1", "item1") if k == 1 else (f"layer{k}",)))
            yield f"bias{k}", shape[1:]
        yield "network", (max(1, width >> self.settings.layers),)

    @property
    def _user_width(self) -> int:
        return 2 * width_of(self.settings.latent)

    def _item_vectors(self) -> NDArray[np.float32]:
        return np.hstack([self.parameters["items"], self.parameters["items_mlp"]])

    def _score_known(self, histories: sp.csr_array, known: NDArray[np.integer] | None) -> NDArray[np.float32]:
        """By a compiled function where JAX is running already, as in training; else by numpy alone."""
        users = self._vectors(histories, known)
        width, layers, n_items = users.shape[1] // 2, self.settings.layers, self.log.n_items
        out = np.empty((len(users), n_items), np.float32)
        compiled = "jax" in sys.modules
        params = self._padded() if compiled else self.parameters
        step = _BLOCK if compiled else max(1, _ENTRIES // (n_items * len(params["bias1"])))
        for at in range(0, len(users), step):
            block = np.split(users[at : at + step], [width], axis=1)
            if compiled:
                block = [widened(each, step, each.shape[1]) for each in block]
                scores = np.asarray(_compiled(layers)(params, block))
            else:
                scores = all_scores(params, block, layers, np.maximum)
            out[at : at + step] = scores[: len(users) - at, :n_items]
        return out

    def _padded(self) -> dict[str, Any]:
        """The parameters on the device, items padded as in training, so that few shapes are compiled."""
        import jax.numpy as jnp

        from infrec.models.batches import padded

        room = padded(self.log.n_items)
        params = {name: a for name, a in self.parameters.items() if name not in ("users", "fold")}
        for name in ("items", "items_mlp", "bias"):
            params[name] = widened(params[name], room, *params[name].shape[1:])
        return {name: jnp.asarray(array) for name, array in params.items()}

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Cosine of the items' embeddings, both kinds side by side."""
        return cosine(self._item_vectors(), item)
