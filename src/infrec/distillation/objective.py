"""The objective of distillation: the loss of ∞-AE, fitted in closed form on the summary, on the real users.

On paper (X̂ the summary, μ × items; X real users; Θ the NTK; m the mean of the diagonal of K_SS):

    K_SS = Θ(X̂, X̂)      α = (K_SS + λ m I)⁻¹ X̂      S_u = Θ(x_u, X̂) α
    multinomial:   mean over users of  −Σ_i t_ui · log softmax(β S_u)_i         (β = 1: the published numbers)
    standardised:  the same with S_u less its mean and divided by its deviation        (ours)
    correlation:   mean over users of  −n_u · corr(S_u, t_u), n_u the sum of t_u        (ours, of sparse logs)
    binary:        mean over users of  −Σ_i t_ui log S_ui + (1 − t_ui) log(1 − S_ui)    (the paper's equation)
    plus           λ₂ · (mean row sum of X̂) / (mean interactions of a real user)

Why standardised: scores of ∞-AE lie in about [0, 1], where a softmax is nearly uniform, so the published loss
falls when scores grow and hardly sees their order. Standardised scores cannot grow; with a small β the loss
is near to the correlation of scores and targets.

Why the correlation itself where people have few items: there the few scores that matter lie ten and more
deviations above the rest, and the normaliser of the softmax, whatever β, punishes them for it. A summary then
has a smaller loss than all the data, and a worse list.

As published, targets and input are the same, t_u = x_u. With `hidden` > 0 a fresh random part of each user's
items is taken out of the input and is the target; the items that stay in are masked in the softmax. With
targets from others (`leave_one_out.py`), as many interactions as were hidden are spread over the items not
shown as everybody else's data would have it: a user then says where to predict from, but not what.

The loss over all users is a sum, so users are taken in blocks and each block's gradient is finished before
the next one starts: five matrix products per block, and no users × items array beyond a block.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from infrec.distillation import batches, counter_noise
from infrec.distillation.batches import Users
from infrec.kernels import Kernel, kernel_of

if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt32

Loss = Literal["multinomial", "standardised", "correlation", "binary"]
MASKED = np.float32(-1e9)
# Where the logarithm of the binary loss goes on as its tangent: scores may leave (0, 1).
EDGE = np.float32(1e-3)


class Form(NamedTuple):
    """The parts of the objective that a compiled function is built for."""

    loss: Loss = "multinomial"
    hidden: float = 0.0
    sharpness: float = 1.0  # scores are multiplied by it in the softmax
    user_power: float = 0.0  # a user's loss is divided by (number of targets) ** user_power
    kernel: Kernel = kernel_of(depth=1)
    precision: str = "default"  # of the two large products with real users
    own_share: float = 0.0  # of the target where others predict: the user's own items


def total(
    x_hat: Float[Array, "mu items"],
    reg: Float[Array, ""],
    users: Users,
    key: UInt32[Array, " 2"],
    form: Form,
    *,
    l1: float = 0.0,
    mean_interactions: Array | float = 1.0,
) -> Float[Array, ""]:
    """The whole objective as a function of the summary."""
    alpha = fit(x_hat, reg, form.kernel)
    loss = outer(x_hat, alpha, users, key, form)
    return loss + l1 * x_hat.sum(axis=1).mean() / mean_interactions if l1 else loss


# ---- inner: ∞-AE on the summary ------------------------------------------------------------------------
def fit(x_hat: Float[Array, "mu items"], reg: Any, kernel: Kernel) -> Float[Array, "mu items"]:
    """α = (K_SS + λ m I)⁻¹ X̂; NaN where the system is not positive definite in float32."""
    return ridge(system(x_hat, reg, kernel), x_hat)


def system(x_hat: Float[Array, "mu items"], reg: Any, kernel: Kernel) -> Float[Array, "mu mu"]:
    """K_SS + λ m I."""
    squares = (x_hat * x_hat).sum(axis=1)
    products = jnp.matmul(x_hat, x_hat.T, precision="highest")
    k = kernel.matrix(products, squares, d=x_hat.shape[1])
    return k + reg * jnp.trace(k) / len(k) * jnp.eye(len(k), dtype=k.dtype)


@jax.custom_vjp
def ridge(a: Float[Array, "mu mu"], y: Float[Array, "mu items"]) -> Float[Array, "mu items"]:
    """A⁻¹ Y for a symmetric positive definite A; forwards and backwards share one factorisation."""
    return _ridge(a, y)[0]


def _ridge(a: Array, y: Array) -> tuple[Array, tuple[Array, Array]]:
    # A⁻¹ from one triangular solve with few columns: with many columns (items) it is the slow part on a GPU.
    factor = jnp.linalg.cholesky(a)
    inverse_factor = jax.lax.linalg.triangular_solve(
        factor, jnp.eye(len(a), dtype=a.dtype), left_side=True, lower=True
    )
    inverse = jnp.matmul(inverse_factor.T, inverse_factor, precision="highest")
    solution = jnp.matmul(inverse, y, precision="highest")
    return solution, (inverse, solution)


def _ridge_back(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    inverse, solution = saved
    pulled = jnp.matmul(inverse, g, precision="highest")
    return -jnp.matmul(pulled, solution.T, precision="highest"), pulled


ridge.defvjp(_ridge, _ridge_back)


# ---- outer: the loss of real users ---------------------------------------------------------------------
@partial(jax.custom_vjp, nondiff_argnums=(4,))
def outer(x_hat: Array, alpha: Array, users: Users, key: Array, form: Form) -> Float[Array, ""]:
    """The mean loss over users."""
    return _outer(x_hat, alpha, users, key, form)[0]


def _outer(
    x_hat: Array, alpha: Array, users: Users, key: Array, form: Form
) -> tuple[Array, tuple[Array, Array]]:
    """Loss, and its gradients by X̂ and α: each device has those of its own users, added up once."""
    parts = (users.x, users.user, users.weight, users.wanted)
    loss, g_x, g_alpha = batches.summed(partial(_sums, form=form), parts, x_hat, alpha, users.total, key)
    return loss, (g_x, g_alpha)


def _sums(parts: Any, x_hat: Array, alpha: Array, total: Array, key: Array, *, form: Form) -> Any:
    """Loss and gradients of one device's users, block by block."""
    squares = (x_hat * x_hat).sum(axis=1)

    def block(carry: Any, part: Any) -> Any:
        loss, g_x, g_squares, g_alpha = carry
        given, target, hide = _given_and_target(part[0], part[1], key, form, part[3])
        kernel, pull = jax.vjp(partial(_kernel, given, form=form), x_hat, squares)
        scores = jnp.matmul(kernel, alpha, precision=form.precision)
        value, g_scores = _loss(scores, given, target, part[2] / total, form, hide)
        g_kernel = jnp.matmul(g_scores, alpha.T, precision=form.precision)
        more_x, more_squares = pull(g_kernel)
        more_alpha = jnp.matmul(kernel.T, g_scores, precision=form.precision)
        return (loss + value, g_x + more_x, g_squares + more_squares, g_alpha + more_alpha), None

    zero = (jnp.float32(0), jnp.zeros_like(x_hat), jnp.zeros_like(squares), jnp.zeros_like(alpha))
    if parts[0].shape[0] == 1:
        done, _ = block(zero, jax.tree.map(lambda a: a[0], parts))
    else:
        done, _ = jax.lax.scan(block, zero, parts)
    loss, g_x, g_squares, g_alpha = done
    return loss, g_x + 2 * g_squares[:, None] * x_hat, g_alpha


def _outer_back(form: Form, saved: tuple[Array, Array], g: Array) -> tuple[Array, Array, None, None]:
    return g * saved[0], g * saved[1], None, None


outer.defvjp(_outer, _outer_back)


def _kernel(given: Array, x_hat: Array, squares: Array, *, form: Form) -> Array:
    """Θ(given, X̂)."""
    gram = jnp.matmul(given, x_hat.T, precision=form.precision)
    own = (given * given).sum(axis=1)
    return form.kernel.from_gram(gram, own, squares, d=x_hat.shape[1])


def _given_and_target(
    x: Array, user: Array, key: Array, form: Form, wanted: Array | None = None
) -> tuple[Array, Array, bool]:
    """A user's input, what is to be predicted from it, and whether the two differ."""
    given, target, hide = _shown_and_hidden(x, user, key, form)
    if wanted is None:
        return given, target, hide
    spread = wanted.astype(jnp.float32)
    if hide:
        spread = jnp.where(given > 0, 0.0, spread)
    amount = target.sum(axis=1) / jnp.maximum(spread.sum(axis=1), np.float32(1e-6))
    spread = amount[:, None] * spread
    if form.own_share:
        spread = form.own_share * target + (1 - form.own_share) * spread
    return given, spread, hide


def _shown_and_hidden(x: Array, user: Array, key: Array, form: Form) -> tuple[Array, Array, bool]:
    values = x.astype(jnp.float32)
    if not form.hidden:
        return values, values, False
    first, second = counter_noise.stream(key, user, jnp.uint32(0))
    item = jax.lax.broadcasted_iota(jnp.uint32, x.shape, 1)
    chance = counter_noise.bits(item, first[:, None], second[:, None])
    mask = chance < np.uint32(round(form.hidden * (2**32 - 1)))
    return jnp.where(mask, 0.0, values), jnp.where(mask, values, 0.0), True


def _loss(
    scores: Array, given: Array, target: Array, weight: Array, form: Form, hide: bool
) -> tuple[Array, Array]:
    """The weighted loss of a block and its gradient by the scores."""
    amount = target.sum(axis=1)
    if form.user_power:
        weight = weight * jnp.maximum(amount, 1.0) ** -form.user_power
    if form.loss == "binary":
        value, slope = _binary(scores, target)
        if hide:  # what was shown is not asked for
            value, slope = jnp.where(given > 0, 0.0, value), jnp.where(given > 0, 0.0, slope)
        return (weight * value.sum(axis=1)).sum(), weight[:, None] * slope
    beta = np.float32(form.sharpness)
    # Whatever its weight, what was shown is masked.
    free = jnp.where(given > 0, 0.0, 1.0) if hide else jnp.ones_like(scores)
    if form.loss == "multinomial":
        shown = jnp.where(free > 0, beta * scores, MASKED)
        top = shown.max(axis=1)
        powers = jnp.exp(shown - top[:, None])
        mass = powers.sum(axis=1)
        likelihood = beta * (target * scores).sum(axis=1) - amount * (jnp.log(mass) + top)
        slope = (weight * amount / mass)[:, None] * powers - weight[:, None] * target
        return -(weight * likelihood).sum(), beta * slope
    count = jnp.maximum(free.sum(axis=1), 1.0)
    centred = scores - ((free * scores).sum(axis=1) / count)[:, None]
    deviation = jnp.sqrt((free * centred * centred).sum(axis=1) / count + np.float32(1e-8))
    # What is shown may lie far outside the deviation of the rest, and its power would overflow: 0 · ∞.
    z = jnp.where(free > 0, centred / deviation[:, None], 0.0)
    if form.loss == "correlation":
        t = free * (target - (amount / count)[:, None])
        t /= jnp.sqrt((t * t).sum(axis=1) / count + np.float32(1e-20))[:, None]
        alike, weight = (t * z).sum(axis=1) / count, weight * amount
        slope = (weight / (count * deviation))[:, None] * (free * z * alike[:, None] - t)
        return -(weight * alike).sum(), slope
    # |z| ≤ √items: powers stay finite without looking for the largest one, unless there are very many items.
    top = (
        jnp.max(free * z, axis=1) if form.sharpness * np.sqrt(scores.shape[1]) > 60 else jnp.zeros_like(count)
    )
    powers = free * jnp.exp(beta * (z - top[:, None]))
    mass = jnp.maximum(powers.sum(axis=1), np.float32(1e-30))  # 0 for a user who is shown every item
    hit = (target * z).sum(axis=1)
    likelihood = beta * (hit - amount * top) - amount * jnp.log(mass)
    # Through the standardisation: Σ (t − n p) = 0, so only the part along z is taken out.
    along = (hit - amount * (powers * z).sum(axis=1) / mass) / count
    scale = weight * beta / deviation
    slope = (scale * amount / mass)[:, None] * powers - scale[:, None] * (target - free * z * along[:, None])
    return -(weight * likelihood).sum(), slope


def _binary(scores: Array, target: Array) -> tuple[Array, Array]:
    """−t log s − (1 − t) log(1 − s), with tangents outside [EDGE, 1 − EDGE], and its slope."""

    def minus_log(s: Array) -> tuple[Array, Array]:
        inside = jnp.maximum(s, EDGE)
        return -jnp.log(inside) + jnp.minimum(s - EDGE, 0.0) * (-1 / EDGE), -1 / inside

    yes, slope_yes = minus_log(scores)
    no, slope_no = minus_log(1.0 - scores)
    positive = jnp.minimum(target, 1.0)
    return positive * yes + (1 - positive) * no, positive * slope_yes - (1 - positive) * slope_no
