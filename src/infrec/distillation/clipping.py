"""Per-user gradients, clipped, without ever forming one: the sum that noise is added to.

User u with history x reaches the loss through its kernel row k = Θ(x, X̂) alone. With g the slope of its
loss by its scores k α, and p, r those by ⟨x, X̂_j⟩ and |X̂_j|² (through Θ), its gradients are

    by α:   k ⊗ g                        norm² = |k|² |g|²
    by X̂:  row j: p_j x + 2 r_j X̂_j     norm² = |x|² Σ p² + 4 Σ p r ⟨x, X̂_j⟩ + 4 Σ r² |X̂_j|²

so the norm of the two together is known from products that a step needs anyway. Each user's share is scaled
to norm C at most, and the sum over users, by X̂ and by α, is what is released with noise; how α depends on
X̂ is a matter of the summary alone, and what comes after is post-processing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from infrec.distillation import objective
from infrec.kernels import ntk

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from infrec.distillation.objective import Form, Users


def clipped_sum(
    x_hat: Float[Array, "mu items"],
    alpha: Float[Array, "mu items"],
    users: Users,
    key: Array,
    form: Form,
    clip: float,
) -> tuple[Float[Array, "mu items"], Float[Array, "mu items"]]:
    """Σ over users of their gradient by X̂ (α held fixed) and by α, each user's pair of norm ≤ `clip`."""
    squares = (x_hat * x_hat).sum(axis=1)

    def block(sums: tuple[Array, Array, Array], part: Any) -> tuple[tuple[Array, Array, Array], None]:
        given, target, hide = objective._given_and_target(part[0], part[1], key, form)
        gram = jnp.matmul(given, x_hat.T, precision=form.precision)
        own = (given * given).sum(axis=1)
        kernel, pull = jax.vjp(
            partial(_rows, own=own, d=x_hat.shape[1], depth=form.depth),
            gram,
            jnp.broadcast_to(squares, gram.shape),
        )
        scores = jnp.matmul(kernel, alpha, precision=form.precision)
        _, slope = objective._loss(scores, given, target, part[2], form, hide)
        p, r = pull(jnp.matmul(slope, alpha.T, precision=form.precision))
        norm = jnp.sqrt(
            (kernel * kernel).sum(axis=1) * (slope * slope).sum(axis=1)
            + own * (p * p).sum(axis=1)
            + 4 * (p * r * gram).sum(axis=1)
            + 4 * (r * r * squares).sum(axis=1)
        )
        # A user whose norm is no number has no share: a single NaN would undo everybody's, and the noise.
        known = jnp.isfinite(norm)[:, None]
        given, kernel, slope, p, r = (jnp.where(known, part, 0.0) for part in (given, kernel, slope, p, r))
        share = jnp.where(known, jnp.minimum(1.0, clip / jnp.maximum(norm, 1e-30))[:, None], 0.0)
        by_x, by_squares, by_alpha = sums
        return (
            by_x + jnp.matmul((share * p).T, given, precision=form.precision),
            by_squares + (share * r).sum(axis=0),
            by_alpha + jnp.matmul(kernel.T, share * slope, precision=form.precision),
        ), None

    zero = (jnp.zeros_like(x_hat), jnp.zeros_like(squares), jnp.zeros_like(alpha))
    (by_x, by_squares, by_alpha), _ = jax.lax.scan(block, zero, (users.x, users.user, users.weight))
    return by_x + 2 * by_squares[:, None] * x_hat, by_alpha


def _rows(gram: Array, squares: Array, *, own: Array, d: int, depth: int) -> Array:
    """Θ of each user with X̂, where every user has its own copy of |X̂_j|²: so the slopes stay apart."""

    def one(xy: Array, xx: Array, yy: Array) -> Array:
        return ntk.from_gram(xy[None, :], xx[None], yy, d=d, depth=depth, xp=jnp)[0]

    return jax.vmap(one)(gram, own, squares)
