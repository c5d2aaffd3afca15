"""A release as an attacker holds it: the released rows and a model of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions, Vocabulary

if TYPE_CHECKING:
    from infrec.data.summary import Summary
    from infrec.models import Recommender

ROWS_AT_ONCE = 1024
Remake = Callable[[Interactions, int], "Released"]


@dataclass(frozen=True, eq=False)
class Released:
    """A release as an attacker sees it: rows, a model to ask, or both.

    Args:
        items: Ids of the items.
        rows: Histories that were passed on; None for a model that holds none.
        model: The model that the attacker asks for scores.
        about: Facts for the record.
        remake: Makes such a release again from other people's histories, with a seed.
    """

    items: Vocabulary
    rows: sp.csr_array | None
    model: Recommender
    about: Mapping[str, Any] = field(default_factory=dict)
    remake: Remake | None = None

    @property
    def counts(self) -> NDArray[np.float64]:
        """How popular each item is, as far as the release tells."""
        if self.rows is not None:
            return np.asarray(self.rows.sum(axis=0), np.float64).ravel()
        nobody = sp.csr_array((1, len(self.items)), dtype=np.float32)
        scores = np.asarray(self.model.score(nobody), np.float64).ravel()
        return scores - scores.min()

    def read(self, everybody: sp.csr_array) -> sp.csr_array | None:
        """The rows as an attacker reads them who knows how long histories are: 0/1.

        Args:
            everybody: Histories whose lengths the attacker knows, CSR.
        """
        if self.rows is None:
            return None
        return outstanding(self.rows, max(1, round(everybody.nnz / max(1, everybody.shape[0]))))

    @classmethod
    def summary(cls, summary: Summary) -> Released:
        """A distilled summary or a sample: the attacker fits ∞-AE on it, as anybody would.

        Args:
            summary: Synthetic or sampled users.
        """
        from infrec.models import InfiniteAE

        model = InfiniteAE().fit(summary)
        names = ("mode", "start", "strategy", "steps", "periods")
        about = {
            "kind": summary.kind,
            "users": summary.n_users,
            "interactions": summary.n_interactions,
            "discrete": summary.discrete,
            **{name: summary.about[name] for name in names if name in summary.about},
        }
        return cls(summary.items, summary.matrix, model, about, _remake(summary))

    @classmethod
    def of_model(cls, model: Recommender) -> Released:
        """A model: its rows are those that it stores and scores with.

        Args:
            model: A fitted model.
        """
        centres = getattr(model, "centres", None)
        rows = centres.matrix if isinstance(centres, Interactions) else None
        users = 0 if rows is None else rows.shape[0]
        about = {"kind": "model", "model": model.name, "users": users}

        def again(log: Interactions, seed: int) -> Released:
            return cls.of_model(model.with_settings().fit(log))

        return cls(model.log.items, rows, model, about, again)


def outstanding(rows: sp.csr_array, size: int) -> sp.csr_array:
    """Fractional rows as 0/1: the `size` items by which each row exceeds the mean of all rows most.

    A fractional row has a little of every item, and what all rows have in common hides whose it is. Rows of
    0/1 stay as they are.
    """
    if np.isin(rows.data, (0.0, 1.0)).all():
        return rows
    mean = np.asarray(rows.mean(axis=0), np.float32).ravel()
    kept = []
    for start in range(0, rows.shape[0], ROWS_AT_ONCE):
        above = rows[start : start + ROWS_AT_ONCE].toarray() - mean
        least = np.partition(above, -min(size, above.shape[1]), axis=1)[:, -min(size, above.shape[1]), None]
        kept.append(sp.csr_array((above >= least) & (above > 0), dtype=np.float32))
    return sp.csr_array(sp.vstack(kept, format="csr"))


def _remake(summary: Summary) -> Remake | None:
    """A shadow is made as the release was: by the same distillation or the same sampler.

    None where that takes more than a log: without settings, or with the logs of earlier periods.
    """
    about = dict(summary.about)
    if "strategy" in about:
        from infrec.samplers import sample, sampler

        def sampled(log: Interactions, seed: int) -> Released:
            size: dict[str, Any] = {"users": min(summary.n_users, log.n_users - 1)}
            if not sampler(about["strategy"]).whole:  # nearly everybody is in it, with few interactions
                share = min(1.0, summary.n_interactions / log.n_interactions)
                size = {"percent": about.get("percent") or 100 * share}
            drawn = sample(log, strategy=about["strategy"], seed=seed, **size)
            return Released.summary(replace(drawn, about=about))

        return sampled
    if "settings" not in about or about.get("periods", 1) > 1:
        return None
    from infrec.distillation import DistillSettings, distill

    def distilled(log: Interactions, seed: int) -> Released:
        settings = {**about["settings"], "seed": seed, "users": min(summary.n_users, log.n_users - 1)}
        complete = DistillSettings.from_dict(settings)
        noise: dict[str, Any] = {}
        if promise := about.get("guarantee"):
            noise = {name: promise[name] for name in ("noise_multiplier", "delta")}
            noise |= {"seed": seed, "catalogue": log.items}
        return Released.summary(distill(log, settings=complete, **noise))

    return distilled
