"""MVAE: a variational autoencoder of histories with a multinomial likelihood (Liang et al., 2018).

    z ~ N(μ(x), σ²(x)),   loss = −Σ_i x_i log softmax(f(z))_i + β KL(N(μ, σ²) ‖ N(0, 1)),   score(x) = f(μ(x))

The input is divided by its length and its items are dropped at random; β grows from 0 to a cap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.gradient_model import (
    DROPOUT,
    LATENT,
    LAYERS,
    RATE,
    DropoutSettings,
    GradientModel,
    Program,
    widened,
    width_of,
)
from infrec.models.mf import cosine
from infrec.search.tunable import takes
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.models.batches import Sizes, Step
    from infrec.models.trainer import Params

ANNEALING = 1000  # steps in which β reaches its cap


def dense_layers(params: Mapping[str, Any], side: str, layers: int, x: Any, tanh: Any) -> Any:
    """x through the hidden layers of a side, "encoder" or "decoder", with a tanh after each."""
    for n in range(layers):
        x = tanh(x @ params[f"{side}{n}.weight"] + params[f"{side}{n}.bias"])
    return x


def layer_shapes(items: int, hidden: int, layers: int, latent: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each layer, in their order: its name, and how many numbers go in and out."""
    for side, into, last, out in (("encoder", items, "mean", latent), ("decoder", latent, "out", items)):
        for n in range(layers):
            yield f"{side}{n}", (into if n == 0 else hidden, hidden)
        yield last, (hidden, out)


@dataclass(frozen=True)
class Autoencoder(Program):
    """MVAE as the trainer sees it."""

    width: int
    latent: int = field(compare=False)  # changes no compiled function
    hidden: int
    layers: int

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        room = dict(layer_shapes(sizes.items, self.hidden, self.layers, self.width))
        out: dict[str, np.ndarray] = {}
        for name, shape in layer_shapes(log.n_items, self.hidden, self.layers, self.latent):
            for each in (name, "spread") if name == "mean" else (name,):
                limit = np.sqrt(6 / sum(shape))  # Glorot
                out[f"{each}.weight"] = widened(rng.uniform(-limit, limit, shape), *room[name])
                out[f"{each}.bias"] = np.zeros(room[name][1], np.float32)
        return out

    def constants(self, sizes: Sizes, log: Interactions) -> Any:
        """Which of the padded items and latent numbers are there."""
        import jax.numpy as jnp

        return {
            "items": jnp.where(jnp.arange(sizes.items) < log.n_items, 0.0, -jnp.inf),
            "latent": (jnp.arange(self.width) < self.latent).astype(jnp.float32),
        }

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        target = step.rows()
        logits, divergence = self.forward(params, target, step, hyper)
        log_softmax = jax.nn.log_softmax(logits + step.constants["items"])
        likelihood = jnp.sum(jnp.where(target > 0, target * log_softmax, 0.0), axis=1)
        beta = self.beta(step, hyper)
        users = jnp.maximum(step.batch.present.sum(), 1.0)
        loss = jnp.sum(step.batch.present * (beta * divergence - likelihood)) / users
        weights = [value for name, value in params.items() if name.endswith("weight")]
        return loss + 0.5 * hyper["l2"] * sum(jnp.sum(weight**2) for weight in weights)

    def beta(self, step: Step, hyper: Mapping[str, Any]) -> Any:
        """β at this step."""
        import jax.numpy as jnp

        return hyper["beta"] * jnp.minimum(1.0, step.batch.step / ANNEALING)

    def forward(
        self,
        params: Params,
        histories: Any,
        step: Step,
        hyper: Mapping[str, Any],
        streams: tuple[int, int] = (1, 2),
    ) -> tuple[Any, Any]:
        """Logits of dense histories, with dropout and the posterior's noise; KL(N(μ, σ²) ‖ N(0, 1))."""
        import jax
        import jax.numpy as jnp

        from infrec.models.trainer import dropped

        there = step.constants["latent"]
        length = jnp.sqrt(jnp.maximum((histories**2).sum(axis=1, keepdims=True), 1e-12))
        x = dropped(histories / length, hyper["dropout"], step.stream(streams[0]))
        h = dense_layers(params, "encoder", self.layers, x, jnp.tanh)
        mean = h @ params["mean.weight"] + params["mean.bias"]
        log_variance = h @ params["spread.weight"] + params["spread.bias"]
        noise = jax.random.normal(step.stream(streams[1]), mean.shape) * there
        z = mean + noise * jnp.exp(0.5 * log_variance)
        h = dense_layers(params, "decoder", self.layers, z, jnp.tanh)
        divergence = 0.5 * jnp.sum(there * (jnp.exp(log_variance) + mean**2 - 1 - log_variance), axis=1)
        return h @ params["out.weight"] + params["out.bias"], divergence


@dataclass(frozen=True)
class MVAESettings(DropoutSettings):
    """Defaults of MVAE, the shape of its network, and the weight of the divergence."""

    latent: int = setting(128, "numbers per history", least=1, search=LATENT)
    rate: float = setting(0.001, "learning rate of Adam", above=0, search=RATE)
    l2: float = setting(0.0, "weight of half the squared norms of the weights", least=0)
    dropout: float = setting(
        0.5, "share of the input that a step leaves out", least=0, below=1, search=DROPOUT
    )
    hidden: int = setting(600, "width of the hidden layers", least=1)
    layers: int = setting(1, "hidden layers of each half", least=1, search=LAYERS)
    # For each interaction of a mean history: the likelihood grows with the history, the divergence does not.
    kl: float = setting(
        0.005, "weight β of the divergence in the end, for each interaction of a mean history", least=0
    )


class MVAE(GradientModel):
    """Scores any history by one pass through the network; there are no users to know."""

    name: ClassVar[str] = "mvae"
    settings_type: ClassVar = MVAESettings
    settings: MVAESettings

    @takes(MVAESettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def program(self, log: Interactions) -> Autoencoder:
        s = self.settings
        return Autoencoder(width_of(s.latent), s.latent, s.hidden, s.layers)

    def hyper(self, log: Interactions) -> dict[str, float]:
        users = max(1, int(np.count_nonzero(log.user_counts)))
        return {**super().hyper(log), "beta": self.settings.kl * float(log.matrix.sum()) / users}

    def _size(self, log: Interactions) -> int:
        return 2 * log.n_items * self.settings.hidden

    def _shapes(self, log: Interactions) -> Iterable[tuple[str, tuple[int, ...]]]:
        """Of everything but the spread, which only training needs."""
        s = self.settings
        for name, shape in layer_shapes(log.n_items, s.hidden, s.layers, s.latent):
            yield from ((f"{name}.weight", shape), (f"{name}.bias", shape[1:]))

    def represent(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """μ(x): where the model places each history.

        Args:
            histories: CSR rows over the model's items.
        """
        p, layers = self.parameters, self.settings.layers
        length = np.sqrt(np.maximum(np.asarray((histories**2).sum(axis=1), np.float32).ravel(), 1e-12))
        x = sp.csr_array(sp.diags_array(1 / length) @ histories, dtype=np.float32)
        h = dense_layers(p, "encoder", layers, x, np.tanh)
        return h @ p["mean.weight"] + p["mean.bias"]

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        p = self.parameters
        h = dense_layers(p, "decoder", self.settings.layers, self.represent(histories), np.tanh)
        return h @ p["out.weight"] + p["out.bias"]

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """Cosine of the items' weights in the last layer."""
        return cosine(self.parameters["out.weight"].T, item)
