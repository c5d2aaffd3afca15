"""Quality against bytes: of summaries in every form and of samples, from 1 % of a log to all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from infrec.paper.cells import DISTILLED, FULL, PUBLISHED_KIND, Cell, Data, pairs
from infrec.paper.experiment import BEYOND, KNOWN_DATASETS, Experiment, Judged, Plan, claimed
from infrec.paper.records import Record
from infrec.paper.results import HR, MAIN_AND_ALL, Results, Rows, axis, data_of, point, rows_of, series, value
from infrec.paper.verdicts import Untestable, every, margin
from infrec.report.document import Figure, Panel, Table, Value
from infrec.report.numbers import label

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


EXPERIMENT = Experiment(
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
