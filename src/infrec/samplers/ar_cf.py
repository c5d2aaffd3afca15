"""AR-CF's users: made by a generator that learns, against a discriminator, what real users look like.

Chae, Kim, Chau, Kim: "AR-CF: Augmenting Virtual Users and Items in Collaborative Filtering for Addressing
Cold-Start Problems" (SIGIR 2020) has two conditional GANs, one for users and one for items; this is the one
for users. A user is made for the profile of a real one, drawn without repetition, and noise. Our logs bring
no profiles (age, occupation), so these are read off the histories: see `profiles`.

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

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.errors import ConfigError, NotFittedError
from infrec.models.gradient_model import Program, Trainable, widened
from infrec.progress import Progress, silent
from infrec.randomness import generator as stream
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.models.batches import Sizes, Step
    from infrec.models.trainer import Params

BLOCK = 512  # users that are made at a time
LEAK = 0.2  # of the discriminator's rectifiers


# ---- the two networks --------------------------------------------------------------------------------------
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
        fake = straight_through(chances, step.stream(2))
        of_discriminator, of_generator = losses(
            params, real, fake, given, hyper["penalty"], step.batch.present
        )
        return of_discriminator + of_generator


def straight_through(chances: Any, key: Any) -> Any:
    """A 0/1 row drawn with these chances, whose gradient is that of the chances."""
    import jax
    import jax.numpy as jnp

    drawn = (jax.random.uniform(key, chances.shape) < chances).astype(jnp.float32)
    return chances + jax.lax.stop_gradient(drawn - chances)


def losses(params: Params, real: Any, fake: Any, given: Any, penalty: Any, present: Any) -> tuple[Any, Any]:
    """The discriminator's loss, closed to the generator, and the generator's, closed to the discriminator."""
    import jax
    import jax.numpy as jnp

    closed = jax.lax.stop_gradient

    def mean(values: Any) -> Any:
        return jnp.sum(present * values) / jnp.maximum(present.sum(), 1.0)

    on_real, slope = jax.vjp(lambda rows: discriminator(params, rows, given), real)
    (steepness,) = slope(jnp.ones_like(on_real))
    on_fake = discriminator(params, closed(fake), given)
    cross_entropy = mean(jax.nn.softplus(-on_real) + jax.nn.softplus(on_fake))
    smooth = 0.5 * penalty * mean(jnp.sum(steepness**2, axis=1))
    generator_loss = mean(jax.nn.softplus(-discriminator(closed(params), fake, given)))
    return cross_entropy + smooth, generator_loss


def profiles(log: Interactions, size: int) -> NDArray[np.float32]:
    """Profiles of users in a few numbers: how many items, and which kinds of items.

    The logarithm of the number of items, and the leading directions of the histories (each divided by the
    root of its length), all brought to mean 0 and variance 1; zeros where the log has fewer directions.
    """
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


# ---- the generator of users --------------------------------------------------------------------------------
@dataclass(frozen=True)
class ARCFSettings(Settings):
    """How the generator and its opponent are built and trained."""

    hidden: int = setting(256, "width of the layers", least=1)
    latent: int = setting(32, "numbers of noise", least=1)
    profile: int = setting(32, "numbers of a user's profile", least=2)
    rate: float = setting(0.001, "learning rate of Adam", above=0)
    penalty: float = setting(10.0, "weight of the penalty on the discriminator's gradient", least=0)
    epochs: int = setting(60, "how long they train", least=1)
    seed: int = setting(42, "seed of the start and of all draws", least=0)


class ARCF(Trainable):
    """A generator of users: `ARCF(epochs=100).fit(log).generate(500)`, trained by the common trainer."""

    name: ClassVar[str] = "ar-cf"
    every: ClassVar[int] = 1  # nothing is validated: there is no early stopping
    patience: ClassVar[int] = 1
    most_epochs: ClassVar[int] = 0

    def __init__(self, **settings: Any) -> None:
        ARCFSettings.check_names(settings, self.name)
        self.settings = ARCFSettings(**settings)
        self.parameters: dict[str, NDArray[np.float32]] = {}
        # What is kept of the log: not the log itself, which may be forgotten.
        self._profiles: NDArray[np.float32] | None = None
        self._items: Vocabulary | None = None
        self._item_info: pa.Table | None = None

    # ---- what the trainer asks for -------------------------------------------------------------------------
    @property
    def selected(self) -> dict[str, Any]:
        return self.settings.to_dict()

    def program(self, log: Interactions) -> Adversaries:
        return Adversaries(self.settings.hidden, self.settings.latent, self.settings.profile)

    def hyper(self, log: Interactions) -> dict[str, float]:
        return {"rate": self.settings.rate, "penalty": self.settings.penalty}

    def with_parameters(
        self, log: Interactions, trained: Mapping[str, NDArray[np.float32]], epochs: int
    ) -> Self:
        """The generator alone, without the padding of its items."""
        other = copy.copy(self)
        other._profiles = profiles(log, self.settings.profile)
        other._items, other._item_info = log.items, log.item_info
        other.parameters = {name: array for name, array in trained.items() if name.startswith("g.")}
        other.parameters["g.out"] = trained["g.out"][:, : log.n_items]
        other.parameters["g.items"] = trained["g.items"][: log.n_items]
        return other

    # ---- what everybody asks for ---------------------------------------------------------------------------
    def fit(
        self,
        log: Interactions,
        *,
        progress: Progress = silent,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """A generator trained on a log. checkpoint: a directory from which a killed fit goes on."""
        from infrec.models.trainer import Training

        fitted: Self = Training(self, log, checkpoint=checkpoint).run(progress=progress).best
        return fitted

    def generate(self, users: int | None) -> Interactions:
        """So many users, numbered, over the items of the log. Fewer of them are the first of more."""
        if not isinstance(users, int) or users < 1:
            raise ConfigError(f"users is {users!r}; expected a whole number of at least 1.")
        blocks = [self._block(at) for at in range(-(-users // BLOCK))]
        return self._interactions(blocks, users)

    def generate_share(self, interactions: float) -> Interactions:
        """The fewest users that together have so many interactions, from the front."""
        blocks: list[sp.csr_array] = []
        held = np.zeros(0, np.int64)
        while not len(held) or held[-1] < interactions:
            blocks.append(self._block(len(blocks)))
            held = np.cumsum(np.concatenate([np.diff(block.indptr) for block in blocks]))
        return self._interactions(blocks, int(np.searchsorted(held, interactions)) + 1)

    def chances(self, given: NDArray[np.floating], z: NDArray[np.floating]) -> NDArray[np.float32]:
        """The chance of each item for users of these profiles with this noise."""
        logits = generator(self.parameters, z, given, lambda h: np.maximum(h, 0))
        return (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)

    def _block(self, at: int) -> sp.csr_array:
        """Users at·BLOCK to (at+1)·BLOCK, each with an item at least."""
        if self._profiles is None:
            raise NotFittedError("ar-cf has not seen a log yet; call fit first.")
        rng = stream(self.settings.seed, "ar-cf", str(at))
        # Everybody's profile comes up once before anybody's comes up again.
        start, n = at * BLOCK, len(self._profiles)
        orders = [
            stream(self.settings.seed, "ar-cf", f"round {lap}").permutation(n)
            for lap in range(start // n, (start + BLOCK - 1) // n + 1)
        ]
        who = np.concatenate(orders)[start - start // n * n :][:BLOCK]
        z = rng.standard_normal((BLOCK, self.settings.latent), dtype=np.float32)
        chances = self.chances(self._profiles[who], z)
        rows = rng.random(chances.shape, dtype=np.float32) < chances
        empty = np.flatnonzero(~rows.any(axis=1))
        rows[empty, chances[empty].argmax(axis=1)] = True
        return sp.csr_array(rows, dtype=np.float32)

    def _interactions(self, blocks: list[sp.csr_array], users: int) -> Interactions:
        assert self._items is not None
        rows = canonical(sp.csr_array(sp.vstack(blocks, format="csr")[:users]))
        return Interactions(rows, Vocabulary.numbered(users), self._items, item_info=self._item_info)


_FITTED: WeakKeyDictionary[Interactions, dict[ARCFSettings, ARCF]] = WeakKeyDictionary()


def draw(
    log: Interactions, users: int | None, share: float | None, seed: int, progress: Progress, **settings: Any
) -> Interactions:
    """Users of a generator for this log, which is trained once in a process, however many are asked for."""
    model = ARCF(seed=seed, **settings)
    known = _FITTED.setdefault(log, {})
    if model.settings not in known:
        known[model.settings] = model.fit(log, progress=progress)
    maker = known[model.settings]
    return maker.generate_share(share * log.n_interactions) if share is not None else maker.generate(users)
