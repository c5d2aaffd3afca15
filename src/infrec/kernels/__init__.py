"""Array mathematics of the kernel; knows nothing of users."""

from infrec.kernels.gram import Kernel
from infrec.kernels.ntk import NTK

__all__ = ["Kernel", "kernel_of"]


def kernel_of(depth: int) -> Kernel:
    """The kernel of ∞-AE and of the distillation, from the setting that they have for it.

    Args:
        depth: Hidden layers of the infinitely wide network.
    """
    return NTK(depth)
