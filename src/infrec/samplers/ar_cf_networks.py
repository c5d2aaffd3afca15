"""AR-CF's two networks as the common trainer sees them: one makes users, the other tells them from real ones.

    generator      noise z, profile c → chances p of the items;  a row is x_i ~ Bernoulli(p_i)
    discriminator  row x, profile c → a number, the larger the more real
    loss           softplus(−D(x, c)) + softplus(D(x̃, c)) + ½ penalty |∇ₓ D(x, c)|²   for the discriminator,
                   softplus(−D(x̃, c))                                                for the generator

A conditional GAN (Mirza & Osindero, 2014) in its non-saturating form (Goodfellow et al., 2014). The penalty
on the gradient at real rows (Mescheder et al., 2018) is what lets it settle. A drawn row has no gradient: it
is passed straight through to p (Bengio et al., 2013), so that the discriminator compares 0/1 rows with 0/1
rows. Both losses are one sum in which each network's own part is closed to the other's parameters, so that
one gradient step moves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.models.gradient_model import Program, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.data import Interactions
    from infrec.models.batches import Sizes
    from infrec.models.trainer import Params, Step

LEAK = 0.2  # of the discriminator's rectifiers


def generator(params: Mapping[str, Any], z: Any, profiles: Any, above_zero: Any) -> Any:
    """The logits of each item's chance. above_zero: `maximum(·, 0)` of numpy or JAX."""
    h = above_zero(z @ params["g.noise"] + profiles @ params["g.profile"] + params["g.bias1"])
    h = above_zero(h @ params["g.hidden"] + params["g.bias2"])
    return h @ params["g.out"] + params["g.items"]


def discriminator(params: Mapping[str, Any], rows: Any, profiles: Any) -> Any:
    """How real each row is, given the profile."""
    import jax

    h = jax.nn.leaky_relu(rows @ params["d.rows"] + profiles @ params["d.profile"] + params["d.bias1"], LEAK)
    h = jax.nn.leaky_relu(h @ params["d.hidden"] + params["d.bias2"], LEAK)
    return (h @ params["d.out"])[:, 0] + params["d.bias3"]


@dataclass(frozen=True)
class Adversaries(Program):
    """The trainer's view. hidden: width of both networks' layers; latent: numbers of noise; profile: of c."""

    hidden: int
    latent: int
    profile: int

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Glorot's weights. Every item begins with the same chance: what is popular is to be learnt."""
        hidden, latent, profile, items = self.hidden, self.latent, self.profile, log.n_items
        drawn = {
            "g.noise": (latent, hidden), "g.profile": (profile, hidden), "g.hidden": (hidden, hidden),
            "g.out": (hidden, items), "d.rows": (items, hidden), "d.profile": (profile, hidden),
            "d.hidden": (hidden, hidden), "d.out": (hidden, 1),
        }  # fmt: skip
        out = {}
        for name, shape in drawn.items():
            limit = np.sqrt(6 / sum(shape))
            room = {"g.out": (hidden, sizes.items), "d.rows": (sizes.items, hidden)}.get(name, shape)
            out[name] = widened(rng.uniform(-limit, limit, shape), *room)
        # Rows are read as if their entries were 1/√(mean length), whatever that is: the first layer's scale.
        out["d.rows"] /= np.float32(np.sqrt(max(1.0, log.n_interactions / log.n_users)))
        share = np.clip(log.n_interactions / (log.n_users * items), 1e-6, 1 - 1e-6)
        out["g.items"] = widened(np.full(items, np.log(share / (1 - share))), sizes.items)
        for name in ("g.bias1", "g.bias2", "d.bias1", "d.bias2"):
            out[name] = np.zeros(hidden, np.float32)
        out["d.bias3"] = np.zeros((), np.float32)
        return out

    def constants(self, sizes: Sizes, log: Interactions) -> Any:
        """The profiles of all users, and which of the padded items are there."""
        import jax.numpy as jnp

        return {
            "profiles": jnp.asarray(widened(profiles(log, self.profile), sizes.users, self.profile)),
            "items": (jnp.arange(sizes.items) < log.n_items).astype(jnp.float32),
        }

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        given = step.constants["profiles"][step.batch.users]
        real = (step.rows() > 0).astype(jnp.float32)
        noise = jax.random.normal(step.stream(1), (real.shape[0], self.latent))
        chances = jax.nn.sigmoid(generator(params, noise, given, jax.nn.relu)) * step.constants["items"]
        made = straight_through(chances, step.stream(2))
        of_discriminator, of_generator = losses(
            params, real, made, given, hyper["penalty"], step.batch.present
        )
        return of_discriminator + of_generator


def straight_through(chances: Any, key: Any) -> Any:
    """A 0/1 row drawn with these chances, whose gradient is that of the chances."""
    import jax
    import jax.numpy as jnp

    drawn = (jax.random.uniform(key, chances.shape) < chances).astype(jnp.float32)
    return chances + jax.lax.stop_gradient(drawn - chances)


def losses(params: Params, real: Any, made: Any, given: Any, penalty: Any, present: Any) -> tuple[Any, Any]:
    """The discriminator's loss, closed to the generator, and the generator's, closed to the discriminator."""
    import jax
    import jax.numpy as jnp

    closed = jax.lax.stop_gradient

    def mean(values: Any) -> Any:
        return jnp.sum(present * values) / jnp.maximum(present.sum(), 1.0)

    on_real, slope = jax.vjp(lambda rows: discriminator(params, rows, given), real)
    (steepness,) = slope(jnp.ones_like(on_real))
    on_made = discriminator(params, closed(made), given)
    told = mean(jax.nn.softplus(-on_real) + jax.nn.softplus(on_made))
    smooth = 0.5 * penalty * mean(jnp.sum(steepness**2, axis=1))
    fooled = mean(jax.nn.softplus(-discriminator(closed(params), made, given)))
    return told + smooth, fooled


def profiles(log: Interactions, size: int) -> NDArray[np.float32]:
    """Profiles of users in a few numbers: how many items, and which kinds of items.

    The logarithm of the number of items, and the leading directions of the histories (each divided by the
    root of its length), all brought to mean 0 and variance 1; zeros where the log has fewer directions.
    """
    from infrec.randomness import generator as stream

    counts = np.maximum(log.user_counts, 1)
    x = log.matrix.copy()
    x.data = np.repeat(1 / np.sqrt(counts), np.diff(x.indptr)).astype(np.float64)
    kept = min(size - 1, *x.shape)
    y = x @ stream(0, "profiles").standard_normal((x.shape[1], min(kept + 8, *x.shape)))
    for _ in range(4):  # power iterations: each brings the subspace closer to the leading one
        y = x @ (x.T @ np.linalg.qr(y)[0])
    basis = np.linalg.qr(y)[0]
    directions = np.linalg.svd(basis.T @ x, full_matrices=False)[2][:kept]
    out = np.zeros((log.n_users, size))
    out[:, 0] = np.log(counts)
    out[:, 1 : 1 + len(directions)] = x @ directions.T
    out -= out.mean(axis=0)
    spread = out.std(axis=0)
    return np.where(spread > 1e-9, out / np.maximum(spread, 1e-9), 0.0).astype(np.float32)
