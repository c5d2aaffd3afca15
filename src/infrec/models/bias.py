"""Bias-only: a global, a user's and an item's bias, and nothing else.

    score(u, i) = a + b_u + c_i

By least squares on the whole 0/1 matrix (the default) the solution is known: a + b_u is the mean of the
user's row and a + c_i that of the item's column, so it ranks exactly as PopRec does. On the observed ones
alone it would be a constant. Trained by epochs instead, on interactions and as many sampled negatives with
the logistic loss, it is the proxy of the sampler SVP-CF, which looks at it after each epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.fitted import Fitted
from infrec.models.gradient_model import GradientModel, GradientState, Program
from infrec.progress import Progress, silent
from infrec.search.tunable import takes
from infrec.settings import AUTO, Auto, Settings, setting

if TYPE_CHECKING:
    from infrec.models.batches import Sizes, Step
    from infrec.models.trainer import Params


class Biases(Program):
    """Bias-only as the trainer sees it."""

    def start(self, sizes: Sizes, log: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"all": np.zeros(1), "users": np.zeros(sizes.users), "items": np.zeros(sizes.items)}

    def loss(self, params: Params, step: Step, hyper: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        pairs = step.pairs()
        of_user = params["all"] + params["users"][step.batch.users][pairs.row]
        positive, negative = (of_user + params["items"][at] for at in (pairs.positive, pairs.negative))
        return jnp.sum(pairs.weight * (jax.nn.softplus(-positive) + jax.nn.softplus(negative)))


@dataclass(frozen=True)
class BiasSettings(Settings):
    """`rate`, `epochs` and `seed` belong to the solver "epochs"."""

    solver: Literal["exact", "epochs"] = setting(
        "exact", "least squares on the whole matrix, or trained with sampled negatives"
    )
    rate: float = setting(0.01, "learning rate of Adam, with `epochs`", above=0)
    epochs: int | Auto = setting(
        AUTO, "exactly so many, or stop early", least=1, fallback=AUTO, decided_by_data=True
    )
    seed: int = setting(42, "seed of the draws", least=0)


class BiasOnly(GradientModel):
    """The simplest model with parameters; for everybody the popular items."""

    name: ClassVar[str] = "bias-only"
    settings_type: ClassVar = BiasSettings
    settings: BiasSettings

    @takes(BiasSettings)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)

    def program(self, log: Interactions) -> Biases:
        return Biases()

    def _fit(self, interactions: Interactions, progress: Progress = silent) -> Fitted:
        if self.settings.solver == "epochs":
            return super()._fit(interactions, progress)
        n, d = interactions.matrix.shape
        everybody = float(interactions.matrix.sum(dtype=np.float64)) / (n * d)
        columns = np.asarray(interactions.matrix.sum(axis=0, dtype=np.float64)).ravel() / n
        # a and c of least squares; b_u = (mean of the row) − a needs no storing
        parameters = {
            "all": np.array([everybody], np.float32),
            "items": (columns - everybody).astype(np.float32),
        }
        return Fitted(replace(self.settings, epochs=1), interactions, GradientState(parameters))

    def check_update(self) -> None:
        if self.settings.solver == "epochs":
            super().check_update()

    def _size(self, log: Interactions) -> int:
        return log.n_users + log.n_items

    def check_size(self, interactions: Interactions) -> None:
        if self.settings.solver == "epochs":
            super().check_size(interactions)

    def _adopt(self, log: Interactions, trained: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        kept = super()._adopt(log, trained)
        return kept | {"all": kept["all"] + trained["users"][: log.n_users].mean()}

    def _shapes(self, log: Interactions) -> Iterable[tuple[str, tuple[int, ...]]]:
        return ("all", (1,)), ("items", (log.n_items,))

    def _score(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """The user's bias is that of their history; where it was trained, that of the mean user."""
        everybody, items = self.parameters["all"], self.parameters["items"]
        own = np.broadcast_to(everybody, (histories.shape[0],))
        if self.settings.solver == "exact":
            own = np.asarray(histories.sum(axis=1), np.float32).ravel() / np.float32(histories.shape[1])
        return (own[:, None] + items[None, :]).astype(np.float32)

    def _similarity(self, item: int) -> NDArray[np.floating[Any]]:
        """An item has nothing but its bias: the others, highest first."""
        return self.parameters["items"]
