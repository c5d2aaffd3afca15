"""Weighted summaries, beyond the paper: quality against bytes, and whether they serve other models.

Models of implicit, where it is installed, say what data are worth to another library than ours. A person is
known by the history alone, whatever the model was fitted on: ALS solves for the person's factors, BPR has the
mean of the factors of the items. To ALS weights are confidences; BPR does not look at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.paper.cells import DISTILLED, FULL, PUBLISHED_KIND, Cell, Data, Fit, pairs
from infrec.paper.experiment import BEYOND, KNOWN_DATASETS, Experiment, Judged, Plan, claimed
from infrec.paper.records import Record
from infrec.paper.results import (
    HR,
    MAIN_AND_ALL,
    Results,
    Rows,
    axis,
    data_of,
    pivot,
    point,
    rows_of,
    series,
    value,
)
from infrec.paper.verdicts import Untestable, every, margin
from infrec.report.document import Figure, Panel, Table, Value
from infrec.report.numbers import label
from infrec.search.criterion import Candidate, Criterion, Scorer
from infrec.splits import Split

# ---- quality against bytes: summaries in every form and samples, from 1 % of a log to all of it -----------
MODELS = ("infinite-ae", "ease")
PERCENT = (1, 3, 10, 30, 60, 100)  # of the log's interactions
USERS = (2, 10, 50, 200)  # of summaries whose rows hold every item
SAMPLERS = ("user-rns", "head-user", "interaction-rns")
WEIGHTED, SOFT = f"{DISTILLED}-weighted", f"{DISTILLED}-soft"
SOURCES = (WEIGHTED, DISTILLED, SOFT, PUBLISHED_KIND, *SAMPLERS)
COLUMNS = (HR, "HR@100", "NDCG@10")
TENTH, THIRD, KEPT = 10, 0.35, 0.93


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Both models on all users, on samples and on summaries; each with its bytes."""
    shares = (TENTH,) if plan.quick else PERCENT
    data = [Data()]
    for percent in shares:
        data += [
            plan.distilled(None, mode, targets="others", percent=percent) for mode in ("weighted", "discrete")
        ]
        data += [Data(source, settings=pairs(percent=percent)) for source in SAMPLERS if percent < 100]
    for users in plan.budgets(dataset, USERS)[: 1 if plan.quick else None]:
        data += [plan.distilled(users, mode) for mode in ("soft", "published")]
    for one in data:
        yield plan.cell(dataset, one, *MODELS, beyond=("bytes",))


# ---- reading the records ---------------------------------------------------------------------------------
class Size(NamedTuple):
    """A kind of data in one size: its bytes, what these are of the log's, and the rows of both models."""

    percent: float | None
    bytes: float
    share: float
    rows: Rows


def sizes(here: Results) -> dict[str, list[Size]]:
    """The sizes of each source that were measured, from the smallest; bytes are means over seeds."""
    of_data: dict[Data, list[Record]] = {}
    for record in here.records:
        if "bytes" in record["data"]:
            of_data.setdefault(data_of(record), []).append(record)
    taken = {data: fmean(one["data"]["bytes"] for one in records) for data, records in of_data.items()}
    whole = next((n for data, n in taken.items() if data.source == FULL), None)
    out: dict[str, list[Size]] = {}
    if whole is None:
        return out
    for data, records in of_data.items():
        percent = dict(data.settings).get("percent")
        one = Size(percent, taken[data], taken[data] / whole, Rows(rows_of(records)))
        out.setdefault(data.name, []).append(one)
    return {
        source: sorted(out[source], key=lambda one: one.bytes) for source in (FULL, *SOURCES) if source in out
    }


@claimed("A weighted summary of a tenth of the interactions is better than random users with as many")
def beats_random_users(here: Results) -> Judged:
    tenths = (one.rows for own in sizes(here).values() for one in own if one.percent == TENTH)
    rows = Rows(row for rows in tenths for row in rows).where(metric=HR)
    pairs = rows.pairs("model", {"source": WEIGHTED}, {"source": "user-rns"})
    figures = "; ".join(f"{label(own.model)} {own} against {random}" for own, random in pairs)
    return every(margin(own, random) for own, random in pairs), f"{HR} of {figures}"


@claimed("A weighted summary of about a third of the log's bytes keeps 93 % of the quality")
def keeps_quality(here: Results) -> Judged:
    of = sizes(here)
    within = [one for one in of.get(WEIGHTED, ()) if one.share <= THIRD]
    if not within:
        raise Untestable("no weighted summary of at most 35 % of the log's bytes was measured")
    rows = Rows([*within[-1].rows, *of[FULL][0].rows]).where(metric=HR)
    pairs = rows.pairs("model", {"source": WEIGHTED}, {"source": FULL})
    figures = "; ".join(f"{label(own.model)} {own} of {whole}" for own, whole in pairs)
    answer = every(margin(own, whole, KEPT) for own, whole in pairs)
    return answer, f"{HR} with {100 * within[-1].share:.0f} % of the bytes: {figures}"


# ---- figures and tables ------------------------------------------------------------------------------------
def figures(each: list[Results]) -> Iterator[Figure]:
    """The main figure, and the appendix's with every metric."""

    def panel(here: Results, model: str, metric: str) -> Panel:
        curves = {
            source: [
                (100 * one.share, row) for one in own for row in one.rows.where(model=model, metric=metric)
            ]
            for source, own in sizes(here).items()
        }
        line = next(((row.value, "all users") for _, row in curves.pop(FULL, ())), None)
        points = {source: [point(x, row) for x, row in curve] for source, curve in curves.items()}
        title = f"{here.dataset}: {label(model)}"
        return Panel(title, "bytes (% of the log's)", axis(metric), series(points), log_x=True, line=line)

    for suffix, metrics in MAIN_AND_ALL:
        yield Figure(
            f"bytes{suffix}",
            "Quality of models fitted on summaries and samples, against the bytes of their "
            "interactions.parquet (zstd), in percent of the log's own. Bands are 95 % intervals over "
            "users, means over seeds; the dashed line is the model on all users.",
            [[panel(here, model, metric) for here in each] for model in MODELS for metric in metrics],
        )


def tables(each: list[Results]) -> Iterator[Table]:
    """Sources and sizes down, models and metrics across."""
    heads = [f"{label(model)} {metric}" for model in MODELS for metric in COLUMNS]
    for here in each:
        lines: list[Sequence[str | Value]] = [
            (
                label(source),
                f"{one.bytes:,.0f}",
                f"{100 * one.share:.1f} %",
                *(
                    value(metric, one.rows.get(model=model, metric=metric))
                    for model in MODELS
                    for metric in COLUMNS
                ),
            )
            for source, own in sizes(here).items()
            for one in own
        ]
        yield Table(
            f"{here.dataset}: bytes, and the quality of both models.",
            ("data", "bytes", "of the log's", *heads),
            lines,
        )


def rows(results: Results) -> list[dict[str, Any]]:
    """Figures for programs: each row with its bytes."""
    return [
        {**row.as_dict(), "bytes": one.bytes, "share_of_bytes": one.share}
        for here in results.each()
        for own in sizes(here).values()
        for one in own
        for row in one.rows
    ]


BYTES = Experiment(
    name="bytes",
    title="How much quality do how many bytes hold?",
    source=BEYOND,
    about="∞-AE and EASE on summaries and samples of 1 to 100 % of the log's interactions, by their bytes.",
    varied=varied,
    claims=(beats_random_users, keeps_quality),
    figures=figures,
    tables=tables,
    notes=(
        "Bytes are those of `interactions.parquet` as infrec saves it, with the zstd codec; the whole log is "
        "saved in the same way.",
        "Weighted and 0/1 summaries learn from what all others predict for a user, as `infrec distill` does; "
        "fractional and published ones from own items. Rows of these hold every item, so that a few of them "
        "take what a small log takes, and their sizes are numbers of users.",
    ),
    datasets=KNOWN_DATASETS,
    rows=rows,
)


# ---- do weighted summaries serve other models than the one they were made through? ------------------------
ALS, BPR = "implicit-als", "implicit-bpr"
PEERS = (ALS, BPR)
GRIDS: Mapping[str, Mapping[str, tuple[int, ...] | tuple[float, ...]]] = {
    ALS: {"factors": (16, 64), "regularization": (0.1, 1.0, 10.0)},
    BPR: {"factors": (16, 64), "regularization": (0.001, 0.01, 0.1)},
}
SERVED_MODELS = ("infinite-ae", "infinite-ae-plus", "ease", "mf", "neumf", "lightgcn", "mvae", *PEERS)
CLOSED = ("infinite-ae", "ease")  # of a quick look
# Percent of the log's interactions, in the summary and of the random users, where the log has below 200,000.
SMALL = dict.fromkeys(("magazine", "douban-book", "lastfm-2k", "demo"), 33)
RANDOM = "user-rns"


def varied_transfer(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Every model on all users, on a weighted summary, and on random users with as many interactions."""
    percent = SMALL.get(dataset, TENTH)
    summary = plan.distilled(None, "weighted", targets="others", percent=percent)
    for data in (Data(), summary, Data(RANDOM, settings=pairs(percent=percent))):
        for model in (*CLOSED, *PEERS) if plan.quick else SERVED_MODELS:
            if model in PEERS and not installed():
                continue
            fit = Fit(model) if model in PEERS else plan.fit(dataset, model, data)
            yield Cell(dataset, 0, data, (fit,))


@claimed("Every model keeps 93 % of its quality on the weighted summary")
def every_model_keeps_quality(here: Results) -> Judged:
    pairs = here.rows.where(metric=HR).pairs("model", {"source": WEIGHTED}, {"source": FULL})
    shares = (f"{label(own.model)} {100 * own.value / full.value:.0f} %" for own, full in pairs if full.value)
    return every(margin(own, full, KEPT) for own, full in pairs), f"{HR}: {', '.join(shares)}"


@claimed("Every model is better on the weighted summary than on random users with as many interactions")
def every_model_beats_random_users(here: Results) -> Judged:
    pairs = here.rows.where(metric=HR).pairs("model", {"source": WEIGHTED}, {"source": RANDOM})
    figures = ", ".join(f"{label(own.model)} {own} against {random}" for own, random in pairs)
    return every(margin(own, random) for own, random in pairs), f"{HR}: {figures}"


def transfer_tables(each: list[Results]) -> Iterator[Table]:
    """Models down; what they are fitted on and metrics across."""
    names = {FULL: "all users", WEIGHTED: "summary", RANDOM: "random users"}
    columns = {f"{name}, {metric}": (source, metric) for source, name in names.items() for metric in COLUMNS}
    for here in each:
        yield pivot(
            f"{here.dataset}: models fitted on everything, and on what is smaller.",
            "model",
            {label(model): own for model in SERVED_MODELS if (own := here.rows.where(model=model))},
            columns,
            lambda own, of: value(of[1], own.get(source=of[0], metric=of[1])),
        )


TRANSFER = Experiment(
    name="transfer",
    title="Do weighted summaries serve other models?",
    source=BEYOND,
    about="Nine models on everything, on a weighted summary, and on random users with as many interactions.",
    varied=varied_transfer,
    claims=(every_model_keeps_quality, every_model_beats_random_users),
    tables=transfer_tables,
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
