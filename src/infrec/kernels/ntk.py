"""The Neural Tangent Kernel of an infinitely wide ReLU network, in closed form.

On paper (NTK parameterisation, weight std W, bias std b, d inputs):

    q⁰(x, y) = W² ⟨x, y⟩ / d + b²                 Θ⁰ = q⁰
    cos θ    = q / √(q(x,x) q(y,y))
    κ₁       = √(q(x,x) q(y,y)) / (2π) · (sin θ + (π − θ) cos θ)
    κ₀       = (π − θ) / (2π)
    q ← W² κ₁ + b²,     Θ ← q_new + W² Θ κ₀        once per hidden layer

In code, S = √(q(x,x) q(y,y)) · sin θ, so that θ = arctan2(S, q) and κ₁ = (S + (π − θ) q) / (2π): no division,
no arccos. S² = q(x,x) q(y,y) − q² loses every digit when x ≈ y, so what is carried from layer to layer are
the gaps a = q(x,x) − q and b = q(y,y) − q: S² = q (a + b) + a b has nothing to cancel, and for binary rows
the first gaps are differences of whole numbers. A floor under S² keeps the slope of its root, and with it
every gradient, finite at identical rows, where the true derivative of κ₀ is not.

`NTK.from_gram` maps ⟨x, y⟩, ⟨x, x⟩, ⟨y, y⟩ to Θ elementwise, so a caller may form the inner products however
it likes (sparse, blocked, on another device), with numpy or compiled and differentiated by JAX.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from infrec.kernels.gram import Kernel, array_module

if TYPE_CHECKING:
    from jaxtyping import Float

Array = Any  # numpy's or JAX's

WEIGHT_VARIANCE = 2.0  # W², W = √2
BIAS_VARIANCE = 0.01  # b², b = 0.1


@dataclass(frozen=True)
class NTK(Kernel):
    """Θ of a network with `depth` hidden layers; with none it is linear."""

    depth: int = 1

    def from_gram(
        self,
        xy: Float[Array, "n m"],
        xx: Float[Array, " n"],
        yy: Float[Array, " m"],
        *,
        d: int,
    ) -> Float[Array, "n m"]:
        """Θ(x, y) from ⟨x, y⟩, ⟨x, x⟩ and ⟨y, y⟩ of rows with d entries."""
        w, xp = WEIGHT_VARIANCE, array_module(xy)
        q = (w / d) * xy + BIAS_VARIANCE
        theta = q
        if self.depth == 0:
            return theta
        floor = 100.0 * float(xp.finfo(q.dtype).eps) ** 2
        qx = ((w / d) * xx + BIAS_VARIANCE)[:, None]
        qy = ((w / d) * yy + BIAS_VARIANCE)[None, :]
        gap_x = (w / d) * (xx[:, None] - xy)
        gap_y = (w / d) * (yy[None, :] - xy)
        for layer in range(self.depth):
            s = xp.sqrt(xp.maximum(q * (gap_x + gap_y) + gap_x * gap_y, floor * (qx * qy)))
            angle = xp.arctan2(s, q)
            if layer + 1 < self.depth:
                excess = angle * q - s
                gap_x = (w / 2) * gap_x + (w / (2 * math.pi)) * excess
                gap_y = (w / 2) * gap_y + (w / (2 * math.pi)) * excess
                qx = (w / 2) * qx + BIAS_VARIANCE
                qy = (w / 2) * qy + BIAS_VARIANCE
            angle = math.pi - angle
            q = (w / (2 * math.pi)) * (s + angle * q) + BIAS_VARIANCE
            theta = q + (w / (2 * math.pi)) * theta * angle
        return theta

    def diagonal(self, xx: Float[Array, " n"], *, d: int) -> Float[Array, " n"]:
        """Θ(x, x): on the diagonal κ₁ = q/2 and κ₀ = 1/2."""
        q = (WEIGHT_VARIANCE / d) * xx + BIAS_VARIANCE
        theta = q
        for _ in range(self.depth):
            q = (WEIGHT_VARIANCE / 2) * q + BIAS_VARIANCE
            theta = q + (WEIGHT_VARIANCE / 2) * theta
        return theta

    def slopes(
        self, xy: Float[np.ndarray, " m"], xx: float, yy: Float[np.ndarray, " m"], *, d: int
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """∂Θ/∂⟨x, y⟩ and ∂Θ/∂⟨x, x⟩ for one x and many y, in closed form.

        From κ₁: ∂κ₁/∂q = κ₀ and ∂κ₁/∂q(x,x) = S / (4π q(x,x)); from θ: ∂θ/∂q = −1/S and ∂θ/∂q(x,x) = q / (2
        q(x,x) S).
        """
        w = WEIGHT_VARIANCE
        q, qx, qy = (w / d) * xy + BIAS_VARIANCE, (w / d) * xx + BIAS_VARIANCE, (w / d) * yy + BIAS_VARIANCE
        theta = q
        dq = (np.full_like(q, w / d), np.zeros_like(q))  # with respect to ⟨x, y⟩, and to ⟨x, x⟩
        dtheta, dqx = list(dq), (0.0, w / d)
        gap_x, gap_y = (w / d) * (xx - xy), (w / d) * (yy - xy)
        floor = 100.0 * float(np.finfo(q.dtype).eps) ** 2
        for _ in range(self.depth):
            s = np.sqrt(np.maximum(q * (gap_x + gap_y) + gap_x * gap_y, floor * qx * qy))
            angle = np.arctan2(s, q)
            kappa0 = (math.pi - angle) / (2 * math.pi)
            dkappa0 = [(a - b * q / (2 * qx)) / (2 * math.pi * s) for a, b in zip(dq, dqx, strict=True)]
            excess = angle * q - s
            gap_x = (w / 2) * gap_x + (w / (2 * math.pi)) * excess
            gap_y = (w / 2) * gap_y + (w / (2 * math.pi)) * excess
            new = [w * (kappa0 * a + s / (4 * math.pi * qx) * b) for a, b in zip(dq, dqx, strict=True)]
            dtheta = [n + w * (t * kappa0 + theta * k) for n, t, k in zip(new, dtheta, dkappa0, strict=True)]
            q = (w / (2 * math.pi)) * (s + (math.pi - angle) * q) + BIAS_VARIANCE
            theta = q + w * theta * kappa0
            qx, qy = (w / 2) * qx + BIAS_VARIANCE, (w / 2) * qy + BIAS_VARIANCE
            dq, dqx = (new[0], new[1]), ((w / 2) * dqx[0], (w / 2) * dqx[1])
        return dtheta[0], dtheta[1]

    def overflows(self, xx: Float[np.ndarray, " n"], *, d: int, dtype: DTypeLike) -> bool:
        """Whether q(x,x) q(y,y), of which a root is taken, is too large a number for that type."""
        largest = WEIGHT_VARIANCE / d * float(xx.max(initial=0.0))
        return 4 * largest**2 > float(np.finfo(dtype).max)
