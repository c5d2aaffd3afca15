"""Which definition of each metric a protocol uses, and all of them at once.

`paper-code` computes what the authors' public code computes, which is where the published numbers come from;
`textbook` is the paper's appendix on metrics, taken literally. They share names, not values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from infrec.errors import ConfigError
from infrec.metrics.accuracy import ndcg, recall, truncated_ndcg, truncated_recall
from infrec.metrics.propensity import propensity_scored_precision, propensity_scored_precision_as_published
from infrec.metrics.ranking import hits

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

Protocol = Literal["paper-code", "textbook"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)

_Metric = Callable[..., Any]
_DEFINITIONS: dict[str, tuple[_Metric, _Metric, _Metric]] = {
    "paper-code": (truncated_recall, truncated_ndcg, propensity_scored_precision_as_published),
    "textbook": (recall, ndcg, propensity_scored_precision),
}


def check_protocol(protocol: str) -> None:
    """Refuse a protocol that does not exist.

    Args:
        protocol: A name; those of `PROTOCOLS` exist.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"the protocol is {protocol!r}; expected one of {', '.join(PROTOCOLS)}.")


def ranking_metrics(
    top: NDArray[np.integer],
    held_out: sp.csr_array,
    weights: NDArray[np.float64],
    *,
    k: Sequence[int] = (10, 100),
    protocol: str = "paper-code",
) -> dict[str, NDArray[np.float64]]:
    """HR, NDCG and PSP of each user at each k, in 0…1.

    Args:
        top: Lists from `top_k`, at least max(k) wide.
        held_out: The items of T, CSR [n, items].
        weights: w_i, from `inverse_propensity`.
        k: Lengths of the lists that are judged.
        protocol: `paper-code` or `textbook`.
    """
    check_protocol(protocol)
    hit_rate, gain, scored_precision = _DEFINITIONS[protocol]
    held = np.diff(held_out.indptr)
    hit = hits(top, held_out)
    out: dict[str, NDArray[np.float64]] = {}
    for length in k:
        if length > top.shape[1]:
            raise ConfigError(f"the lists hold {top.shape[1]} items; expected at least k = {length}.")
        out[f"HR@{length}"] = hit_rate(hit[:, :length], held)
        out[f"NDCG@{length}"] = gain(hit[:, :length], held)
        out[f"PSP@{length}"] = scored_precision(top[:, :length], hit[:, :length], held_out, weights)
    return out
