"""Everything that is taken from real users under (ε, δ): three noisy sums over users, once.

Each user adds a vector of norm 1 at most, and Gaussian noise of deviation σ_i is added to every entry of
the sum:

    activity   a 1 in the bin of their number of items                          bins of doubling width, fixed
    items      x / |x|                                                          how popular items are
    together   y yᵀ off the diagonal, y = x over the chosen items / its norm    which items occur together

|x| is the Euclidean norm, so |x / |x|| = 1 and the Frobenius norm of y yᵀ is 1. y yᵀ is symmetric: its
upper half, weighted by √2, has the same norm, and the noise of an entry is σ/√2. One noise multiplier σ is
shared out: 1/σ² = Σ 1/σ_i², so the three together are one Gaussian mechanism with σ. The proof is in
docs/guarantee.md.

Invented users who agree with noisy sums over real ones: post-processing, which costs no ε, however long.

An invented user has a taste z ~ N(0, I_k) and an activity n, and takes item i with the chance

    p_i = 1 − exp(−n · softmax(b + V z)_i)

b starts as the logarithm of what was released of single items. Then b and V are fitted by least squares, the
likelihood under Gaussian noise: over many draws of z and n the mean of p pᵀ / Σp, times the number of users,
is to be what was released of items that occur together. A few factors cannot follow the noise of all pairs,
which is what makes the result better than the sums it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from scipy.special import ndtri

from infrec.data.vocabulary import to_numpy
from infrec.errors import DataError
from infrec.progress import Progress, silent
from infrec.randomness import generator, key
from infrec.splits.holdout import hashed, mixed

if TYPE_CHECKING:
    from jaxtyping import Array
    from numpy.typing import NDArray

    from infrec.data import Vocabulary

SHARES = {"activity": 0.02, "items": 0.08, "together": 0.9}  # of 1/σ²
MOST_ITEMS = 2000  # of one user; of those who have more, as many by a hash of user and item
BINS = 16  # of activity: 1, 2–3, 4–7, …
ROWS_AT_ONCE = 8192
# Items whose co-occurrence is asked for, the most popular first: 1.8 (users / σ)^0.7, found on ML-1M at
# ε = 1, 3, 8 (300, 600, 1,000 items). More would only bring in pairs that drown in the noise.
ITEMS_FACTOR, ITEMS_POWER, ITEMS_RANGE = 1.8, 0.7, (50, 4000)

FACTORS = 24
STEPS = 300
DRAWS = 768  # invented users of a step
RATE = 0.05
START = 0.1  # deviation of V at first


# ---- sums over users, before the noise ---------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over users without noise, which nobody but `release` may see. One user adds norm 1 to each.

    histories: [users, columns], at most MOST_ITEMS in a row, whose weights are not looked at.
    activity: [BINS]. items: [columns].
    """

    histories: sp.csr_array
    activity: NDArray[np.float64]
    items: NDArray[np.float64]

    @classmethod
    def of(cls, histories: sp.csr_array) -> Sums:
        """The sums of rows that are no longer than MOST_ITEMS; an empty row adds nothing."""
        counts = np.diff(histories.indptr)
        bins = np.minimum(np.log2(counts[counts > 0]).astype(np.int64), BINS - 1)
        activity = np.bincount(bins, minlength=BINS).astype(np.float64)
        return cls(histories, activity, np.asarray(unit(histories).sum(axis=0), np.float64).ravel())

    def together(self, chosen: NDArray[np.integer]) -> NDArray[np.float64]:
        """Σ y yᵀ over users without its diagonal, y = a row over the chosen columns, of norm 1."""
        y = unit(sp.csr_array(self.histories[:, chosen]))
        gram = (y.T @ y).toarray() if y.nnz < 0.05 * y.shape[0] * y.shape[1] else _dense_gram(y)
        np.fill_diagonal(gram, 0.0)
        return gram


def unit(x: sp.csr_array) -> sp.csr_array:
    """Rows of ones over their norm: each then has norm 1, or 0 without any item. Weights count as 1."""
    counts = np.diff(x.indptr)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)


def shortened(train: sp.csr_array, users: Vocabulary, items: Vocabulary) -> sp.csr_array:
    """No user with more than MOST_ITEMS, which bounds how many items a single user can bring.

    Of a longer history the items with the smallest hash of user id and item id stay (the text of the id
    decides between equal ones): a function of the user's own id and items, whoever else is in the log.
    """
    counts = np.diff(train.indptr)
    if counts.max(initial=0) <= MOST_ITEMS:
        return train
    row = np.repeat(np.arange(train.shape[0]), counts)
    chance = mixed(hashed(users, 0)[row] ^ hashed(items, 1)[train.indices])
    text = to_numpy(pc.rank(items.ids.cast(pa.string()), sort_keys="ascending")).astype(np.int64)
    order = np.lexsort((text[train.indices], chance, row))
    place = np.empty(train.nnz, np.int64)
    place[order] = np.arange(train.nnz) - np.repeat(train.indptr[:-1], counts)
    kept = place < MOST_ITEMS
    return sp.csr_array((train.data[kept], (row[kept], train.indices[kept])), shape=train.shape)


def _dense_gram(y: sp.csr_array) -> NDArray[np.float64]:
    """yᵀ y, of some users at a time: all of them dense would be many times the log."""
    out = np.zeros((y.shape[1], y.shape[1]))
    for start in range(0, y.shape[0], ROWS_AT_ONCE):
        dense = y[start : start + ROWS_AT_ONCE].toarray()
        out += dense.T @ dense
    return out


# ---- the noise ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Release:
    """Noisy sums. items: the columns of those chosen; weights, together: of these, in this order.

    threshold: the noisy weight above which an item is named; None where the list of items is public.
    """

    activity: NDArray[np.float64]
    items: NDArray[np.int64]
    weights: NDArray[np.float64]
    together: NDArray[np.float32]
    deviation: float  # of the noise in `together`
    threshold: float | None = None

    @property
    def users(self) -> float:
        """How many users there are, as far as may be known."""
        return max(float(self.activity.sum()), 1.0)


def release(sums: Sums, multiplier: float, *, secret: int, threshold_delta: float | None) -> Release:
    """The three sums with noise. multiplier: σ. secret: the seed of the noise, which nobody may ever know.

    threshold_delta: None where the list of items is public. Otherwise only items that somebody has are
    considered, and items that a single user has are named with a chance of at most this δ, all together.
    """
    deviation = {name: multiplier / np.sqrt(share) for name, share in SHARES.items()}
    noise = {name: generator(secret, "release", name) for name in SHARES}  # none moves another
    activity = np.maximum(sums.activity + deviation["activity"] * noise["activity"].standard_normal(BINS), 0)
    # Without a public list, that a column exists at all depends on who is in the log: one without weight
    # (in the test part only, or cut away) may not even get a chance to be named by its noise.
    columns = np.arange(len(sums.items)) if threshold_delta is None else np.flatnonzero(sums.items)
    weights = sums.items[columns] + deviation["items"] * noise["items"].standard_normal(len(columns))
    threshold = None
    if threshold_delta is not None:
        threshold = existence_threshold(deviation["items"], threshold_delta)
        columns, weights = columns[weights > threshold], weights[weights > threshold]
    users = float(activity.sum())
    first = np.argsort(-weights, kind="stable")[: how_many(users, multiplier)]
    items, weights = columns[first], weights[first]
    if (standing := int((weights > 0).sum())) < 2 or not activity.any():
        raise DataError(
            f"with this noise {standing} items stand out from a log of about {users:,.0f} users; expected "
            "at least 2: use a larger ε, a larger log, or give the public list of items (--catalogue)."
        )
    spread = float(deviation["together"] / np.sqrt(2))
    pairs = np.triu(spread * noise["together"].standard_normal((len(items), len(items))), 1)
    together = np.asarray(sums.together(items) + pairs + pairs.T, np.float32)
    return Release(activity, items, weights, together, spread, threshold)


def how_many(users: float, multiplier: float) -> int:
    """How many items to ask for, from what is known of the number of users and the noise."""
    wanted = ITEMS_FACTOR * (users / multiplier) ** ITEMS_POWER
    return int(np.clip(50 * round(wanted / 50), *ITEMS_RANGE))  # round figures: fewer shapes to compile


def existence_threshold(deviation: float, delta: float) -> float:
    """The noisy weight that items of a single user exceed with a chance of at most δ, all together.

    With k such items each weighs 1/√k at most; the largest of k normal deviates is below Φ⁻¹((1 − δ)^(1/k))
    with chance 1 − δ. From "Differentially private set union" (Gopi and others, ICML 2020), whose weights
    these are.
    """
    k = np.arange(1, MOST_ITEMS + 1)
    # (1 − δ)^(1/k) = 1 − tail; the tail is far below what 1 − x can hold.
    tail = -np.expm1(np.log1p(-delta) / k)
    return float((1 / np.sqrt(k) + deviation * -ndtri(tail)).max())


class Taste(NamedTuple):
    """b [items] and V [items, factors]."""

    bias: Array
    factors: Array


@dataclass(frozen=True, eq=False)
class Population:
    """Fitted tastes over the released items, and how active people are (chances of each doubling bin)."""

    bias: NDArray[np.float32]
    factors: NDArray[np.float32]
    activity: NDArray[np.float64]

    @classmethod
    def fit(cls, release: Release, *, seed: int, progress: Progress = silent) -> Population:
        """Least squares on the released sums, by Adam with fresh draws in each step."""
        import jax
        import jax.numpy as jnp

        rng = generator(seed, "population")
        first = np.log(np.maximum(release.weights, 1e-3 * release.weights.max()))
        taste = Taste(
            jnp.asarray(first - first.max(), jnp.float32),
            jnp.asarray(START * rng.standard_normal((len(first), FACTORS)), jnp.float32),
        )
        adam, step = _stepper(STEPS)
        state = adam.init(taste)
        activity = release.activity / release.activity.sum()
        data = (
            jnp.asarray(release.together),
            jnp.asarray(activity, jnp.float32),
            jnp.float32(release.users),
        )
        stream = key(seed, "population")
        for at in range(STEPS):
            taste, state = step(taste, state, jax.random.fold_in(stream, at), data)
            if at % 10 == 9:
                jax.block_until_ready(taste)
                progress("population", at + 1, STEPS)
        return cls(np.asarray(taste.bias), np.asarray(taste.factors), activity)

    def draw(self, users: int, *, seed: int) -> sp.csr_array:
        """Invented users over the released items; nobody without any item."""
        rng = generator(seed, "invented users")
        z = rng.standard_normal((users, self.factors.shape[1])).astype(np.float32)
        size = _sizes(rng.choice(len(self.activity), users, p=self.activity), rng.random(users))
        logits = self.bias + z @ self.factors.T
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance = -np.expm1(-size[:, None] * chance / chance.sum(axis=1, keepdims=True))
        taken = rng.random(chance.shape) < chance
        taken[np.arange(users), chance.argmax(axis=1)] |= ~taken.any(axis=1)
        return sp.csr_array(taken.astype(np.float32))


@cache
def _stepper(steps: int) -> tuple[Any, Callable[..., tuple[Taste, Any]]]:
    """Adam with a cosine rate, and one step of it, compiled once for each shape."""
    import jax
    import optax

    adam = optax.adam(optax.cosine_decay_schedule(RATE, steps))

    @jax.jit
    def step(taste: Taste, state: Any, key: Array, data: tuple[Array, ...]) -> tuple[Taste, Any]:
        updates, state = adam.update(jax.grad(_misfit)(taste, key, data), state)
        return optax.apply_updates(taste, updates), state

    return adam, step


def _misfit(taste: Taste, key: Array, data: tuple[Array, ...]) -> Array:
    import jax
    import jax.numpy as jnp

    together, activity, users = data
    for_z, for_bin, for_size = jax.random.split(key, 3)
    z = jax.random.normal(for_z, (DRAWS, taste.factors.shape[1]))
    bins = jax.random.choice(for_bin, len(activity), (DRAWS,), p=activity)
    size = jnp.exp2(bins + jax.random.uniform(for_size, (DRAWS,)))
    share = jax.nn.softmax(taste.bias + z @ taste.factors.T, axis=1)
    chance = -jnp.expm1(-size[:, None] * share)
    expected = (chance / chance.sum(axis=1, keepdims=True)).T @ chance * (users / DRAWS)
    off_diagonal = 1 - jnp.eye(len(together))
    return ((expected - together) ** 2 * off_diagonal).sum()


def _sizes(bins: NDArray[np.integer], within: NDArray[np.float64]) -> NDArray[np.float64]:
    """Activities in the bins 1, 2–3, 4–7, …, evenly on a logarithmic scale."""
    return np.exp2(bins + within)
