"""Do weighted summaries serve other models than the one they were made through, in other libraries too?

Models of implicit, where it is installed, say what data are worth to another library than ours. A person is
known by the history alone, whatever the model was fitted on: ALS solves for the person's factors, BPR has the
mean of the factors of the items. To ALS weights are confidences; BPR does not look at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.paper.cells import DISTILLED, FULL, Cell, Data, Fit, pairs
from infrec.paper.experiment import BEYOND, KNOWN_DATASETS, Experiment, Judged, Plan, claimed
from infrec.paper.results import HR, Results, pivot, value
from infrec.paper.verdicts import every, margin
from infrec.report.document import Table
from infrec.report.numbers import label
from infrec.search.criterion import Candidate, Criterion, Scorer
from infrec.splits import Split

ALS, BPR = "implicit-als", "implicit-bpr"
PEERS = (ALS, BPR)
GRIDS: Mapping[str, Mapping[str, tuple[int, ...] | tuple[float, ...]]] = {
    ALS: {"factors": (16, 64), "regularization": (0.1, 1.0, 10.0)},
    BPR: {"factors": (16, 64), "regularization": (0.001, 0.01, 0.1)},
}
MODELS = ("infinite-ae", "infinite-ae-plus", "ease", "mf", "neumf", "lightgcn", "mvae", *PEERS)
CLOSED = ("infinite-ae", "ease")  # of a quick look
PERCENT = 10  # of the log's interactions, in the summary and of the random users
SMALL = dict.fromkeys(("magazine", "douban-book", "lastfm-2k", "demo"), 33)  # of logs below 200,000
WEIGHTED, RANDOM = f"{DISTILLED}-weighted", "user-rns"
METRICS = (HR, "HR@100", "NDCG@10")
KEPT = 0.93


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Every model on all users, on a weighted summary, and on random users with as many interactions."""
    percent = SMALL.get(dataset, PERCENT)
    summary = plan.distilled(None, "weighted", targets="others", percent=percent)
    for data in (Data(), summary, Data(RANDOM, settings=pairs(percent=percent))):
        for model in (*CLOSED, *PEERS) if plan.quick else MODELS:
            if model in PEERS and not installed():
                continue
            fit = Fit(model) if model in PEERS else plan.fit(dataset, model, data)
            yield Cell(dataset, 0, data, (fit,))


@claimed("Every model keeps 93 % of its quality on the weighted summary")
def keeps_quality(here: Results) -> Judged:
    pairs = here.rows.where(metric=HR).pairs("model", {"source": WEIGHTED}, {"source": FULL})
    shares = (f"{label(own.model)} {100 * own.value / full.value:.0f} %" for own, full in pairs if full.value)
    return every(margin(own, full, KEPT) for own, full in pairs), f"{HR}: {', '.join(shares)}"


@claimed("Every model is better on the weighted summary than on random users with as many interactions")
def beats_random_users(here: Results) -> Judged:
    pairs = here.rows.where(metric=HR).pairs("model", {"source": WEIGHTED}, {"source": RANDOM})
    figures = ", ".join(f"{label(own.model)} {own} against {random}" for own, random in pairs)
    return every(margin(own, random) for own, random in pairs), f"{HR}: {figures}"


def tables(each: list[Results]) -> Iterator[Table]:
    """Models down; what they are fitted on and metrics across."""
    names = {FULL: "all users", WEIGHTED: "summary", RANDOM: "random users"}
    columns = {f"{name}, {metric}": (source, metric) for source, name in names.items() for metric in METRICS}
    for here in each:
        yield pivot(
            f"{here.dataset}: models fitted on everything, and on what is smaller.",
            "model",
            {label(model): own for model in MODELS if (own := here.rows.where(model=model))},
            columns,
            lambda own, of: value(of[1], own.get(source=of[0], metric=of[1])),
        )


EXPERIMENT = Experiment(
    name="transfer",
    title="Do weighted summaries serve other models?",
    source=BEYOND,
    about="Nine models on everything, on a weighted summary, and on random users with as many interactions.",
    varied=varied,
    claims=(keeps_quality, beats_random_users),
    tables=tables,
    notes=(
        "Summary and random users have 33 % of the interactions of a log below 200,000, 10 % of a larger "
        "one.",
        "λ of ∞-AE and EASE is chosen on validation for each data; other models of ours have the settings "
        "chosen on the full data. ALS and BPR are implicit's, where it is installed; six settings of each "
        "were tried on validation.",
    ),
    datasets=KNOWN_DATASETS,
)


# ---- models of implicit ------------------------------------------------------------------------------------
def installed() -> bool:
    """Whether implicit is there."""
    return find_spec("implicit") is not None


class Peer(Scorer):
    """A fitted model of implicit, which is asked as ours are.

    Args:
        name: One of `PEERS`.
        log: What it is fitted on.
        seed: Seed of everything random.
        settings: implicit's own, by name.
    """

    def __init__(self, name: str, log: Interactions, seed: int, **settings: Any) -> None:
        if not installed():
            raise ConfigError(f"{name} needs implicit; expected `pip install implicit`.")
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking

        kind = AlternatingLeastSquares if name == ALS else BayesianPersonalizedRanking
        self.name, self._log, self.items, self.selected = name, log, log.items, settings
        self.model = kind(**settings, random_state=seed, num_threads=1, use_gpu=False)
        self.model.fit(sp.csr_matrix(log.matrix, copy=True), show_progress=False)

    @property
    def log(self) -> Interactions:
        """The data that it was fitted on."""
        return self._log

    def fitted_scores(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """Scores of training users by their histories."""
        return self.score(self._log.matrix[rows])

    def score(self, histories: sp.csr_array, *, users: Sequence[object] | None = None) -> NDArray[np.float32]:
        """A score for every item, by these histories alone."""
        rows = sp.csr_matrix(histories, dtype=np.float32, copy=True)
        if self.name == ALS:
            people = self.model.recalculate_user(np.arange(rows.shape[0]), rows)
        else:
            people = (rows @ self.model.item_factors) / np.maximum(np.diff(rows.indptr), 1)[:, None]
        return np.asarray(people @ self.model.item_factors.T, np.float32)

    @classmethod
    def best(cls, name: str, log: Interactions, split: Split, seed: int) -> tuple[Peer, list[Candidate]]:
        """The model of those in `GRIDS` that is best on validation, and all that were tried.

        Args:
            name: One of `PEERS`.
            log: What it is fitted on.
            split: The validation items, and the histories of those who judge.
            seed: Seed of everything random.
        """
        judge = Criterion(split.val.matrix, split.train.matrix)
        models, tried = list[Peer](), list[Candidate]()
        for values in product(*GRIDS[name].values()):
            settings = dict(zip(GRIDS[name], values, strict=True))
            models.append(cls(name, log, seed, **settings))
            tried.append(Candidate(settings, judge(models[-1])))
        at = max(range(len(tried)), key=lambda at: tried[at].score or 0.0)
        return models[at], tried
