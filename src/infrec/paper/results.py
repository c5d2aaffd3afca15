"""The results of an experiment: its records, and rows of them in tables and figures."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from infrec.paper import published
from infrec.paper.cells import CHOSEN_ANEW, DEFAULT_MODE, DISTILLED, FULL, PUBLISHED_KIND, Data, pairs
from infrec.paper.experiment import KNOWN_DATASETS, QUICK_STEPS
from infrec.paper.published import METRICS
from infrec.paper.records import LOOK, Record, Records
from infrec.paper.verdicts import Untestable
from infrec.report import numbers
from infrec.report.document import Point, Series, Table, Value

MAIN = PUBLISHED_KIND
AT_EDGE = "λ at the edge"
HR = "HR@10"  # decides claims, where nothing else is said
MAIN_AND_ALL = (("", (HR,)), ("-all", METRICS))  # a main figure and the appendix's: suffix, metrics


@dataclass(frozen=True)
class Results:
    """The records of one experiment, and the way to those of the others.

    dataset: the only one, where they are those of one. damaged: lines of the file that were no records.
    """

    records: Sequence[Record]
    others: Callable[[str], Results]
    dataset: str = ""
    damaged: int = 0

    def __post_init__(self) -> None:
        if not self.dataset:
            object.__setattr__(self, "records", _with_short_names(self.records))

    @classmethod
    def at(cls, root: Path, name: str) -> Results:
        """Results of an experiment, from its records under `root`."""
        kept = Records(root / name)
        all_records = kept.read().values()
        # Where a dataset was also measured in earnest, its quick records have served their purpose.
        earnest = {dataset_of(r) for r in all_records if not of_a_look(r)}
        records = [r for r in all_records if not (of_a_look(r) and dataset_of(r) in earnest)]
        return cls(records, lambda other: cls.at(root, other), damaged=kept.damaged)

    @cached_property
    def rows(self) -> Rows:
        return Rows(rows_of(self.records))

    def datasets(self) -> list[str]:
        """The datasets that have records, in the order of the paper's table, then the others."""
        there = {dataset_of(record) for record in self.records}
        known = [name for name in KNOWN_DATASETS if name in there]
        return known + sorted(there - set(known))

    def quick_datasets(self) -> list[str]:
        """The datasets of which there is only a quick look."""
        return sorted({dataset_of(record) for record in self.records if of_a_look(record)})

    def each(self) -> list[Results]:
        """The results on each dataset, in the order of `datasets`."""
        return [
            Results([record for record in self.records if dataset_of(record) == name], self.others, name)
            for name in self.datasets()
        ]


def dataset_of(record: Record) -> str:
    return str(record["configuration"]["dataset"])


def of_a_look(record: Record) -> bool:
    """Whether only a quick look has asked for it, shortened or not."""
    return bool(record["configuration"]["quick"] or record.get(LOOK))


def _with_short_names(records: Sequence[Record]) -> list[Record]:
    """A dataset that was given as a path is called by the file's name, where that is one dataset's alone."""
    given = {dataset_of(record) for record in records}
    called = {name: Path(name).stem if os.sep in name else name for name in given}
    shared = {short for short, count in Counter(called.values()).items() if count > 1}
    called = {name: name if short in shared else short for name, short in called.items()}
    return [{**r, "configuration": {**r["configuration"], "dataset": called[dataset_of(r)]}} for r in records]


# ---- rows in tables and figures ---------------------------------------------------------------------------
def value(metric: str, row: Row | None, *, paper: bool = False, best: float | None = None) -> Value:
    """The cell of a row, with its interval; empty where nothing was measured.

    Args:
        metric: What the row is of.
        row: The row, or None.
        paper: Whether the paper's number stands beside it, where there is one.
        best: The largest value, which is stressed.
    """
    if row is None:
        return Value(metric, None)
    note = AT_EDGE if row.edge else ""
    return Value(metric, row.value, row.low, row.high, row.paper if paper else None, row.value == best, note)


def pivot(
    caption: str,
    corner: str,
    lines: Mapping[str, Any],
    columns: Mapping[str, Any],
    cell: Callable[[Any, Any], Value],
) -> Table:
    """A table of two directions.

    Args:
        caption: The sentence above it.
        corner: The name of what the lines are.
        lines: By name, what `cell` is asked with.
        columns: By name, what `cell` is asked with.
        cell: The cell of a line and a column.
    """
    rows: list[Sequence[str | Value]] = [
        (name, *(cell(line, key) for key in columns.values())) for name, line in lines.items()
    ]
    return Table(caption, (corner, *columns), rows)


def by_metric(caption: str, corner: str, lines: Mapping[str, Rows]) -> Table:
    """Every metric of each line, the rows of one model or strategy; the best of a column is stressed."""
    every = [row for rows in lines.values() for row in rows]
    best = {metric: max((r.value for r in every if r.metric == metric), default=None) for metric in METRICS}

    def cell(rows: Rows, metric: str) -> Value:
        return value(metric, rows.get(metric=metric), best=best[metric])

    return pivot(caption, corner, lines, {metric: metric for metric in METRICS}, cell)


def point(x: float, row: Row) -> Point:
    """A row at a place of the x axis."""
    return Point(float(x), row.value, row.low, row.high, row.seeds)


def series(points: Mapping[str, Sequence[Point]]) -> list[Series]:
    """A series for each name that has points."""
    return [Series(name, own) for name, own in points.items() if own]


def axis(metric: str) -> str:
    """The name of a metric's axis: with its unit."""
    return metric if metric == "AUC" else f"{metric} (%)"


# ---- rows, one for each thing that was measured and each metric, over all seeds ---------------------------
@dataclass(frozen=True)
class Row:
    """value: the mean over seeds. low, high: the 95 % interval over users, also a mean over seeds.

    least, most: over seeds. model: as Table 1 names its columns. users: what the model was fitted on.
    settings: those of the model that the experiment fixed; making: those of the distillation. by_seed: the
    value of each seed. groups: of each group of users (`records.groups`), where all seeds have them. edge:
    with how many seeds λ was chosen at the edge of its grid.
    """

    dataset: str
    source: str
    users: int
    noise: float
    model: str
    metric: str
    value: float
    low: float
    high: float
    least: float
    most: float
    seeds: int
    paper: float | None
    settings: str = ""
    making: str = ""
    histories: str = "clean"
    label: str = ""
    by_seed: tuple[tuple[int, float], ...] = ()
    groups: tuple[float, ...] = ()
    edge: int = 0

    def __str__(self) -> str:
        return numbers.number(self.metric, self.value)

    def only(self, *names: str) -> dict[str, Any]:
        """These fields by name."""
        return {name: getattr(self, name) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: without what is not set."""
        hidden = {name for name in ("settings", "making", "label", "edge") if not getattr(self, name)}
        hidden |= {"by_seed", "groups"}
        hidden |= {"histories"} if self.histories == "clean" else set()
        return {name: value for name, value in vars(self).items() if name not in hidden}


class Rows(Sequence[Row]):
    """Rows that can be asked for: `rows.where(dataset="ml-1m", metric="HR@10").get(model="ease")`."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def where(self, **wanted: Any) -> Rows:
        """Those whose fields have these values; a tuple holds several, a callable decides itself."""

        def fits(field: Any, value: Any) -> bool:
            if callable(value):
                return bool(value(field))
            return field in value if isinstance(value, tuple) else field == value

        items = wanted.items()
        return Rows(row for row in self if all(fits(getattr(row, name), value) for name, value in items))

    def get(self, **wanted: Any) -> Row | None:
        """The first such row."""
        return next(iter(self.where(**wanted)), None)

    def one(self, **wanted: Any) -> Row:
        """The first such row; a claim that needs it cannot be tested without it."""
        row = self.get(**wanted)
        if row is None:
            raise Untestable
        return row

    def pairs(self, name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[Row, Row]]:
        """For each value of a field the row of the one and of the other kind, where both are measured."""
        rows = [(self.get(**{**one, name: at}), self.get(**{**other, name: at})) for at in self.every(name)]
        pairs = [(a, b) for a, b in rows if a is not None and b is not None]
        if not pairs:
            raise Untestable
        return pairs

    def every(self, name: str) -> list[Any]:
        """The values of a field, each once: numbers sorted, words in the order of the records."""
        values = list(dict.fromkeys(getattr(row, name) for row in self))
        return sorted(values) if all(isinstance(value, int | float) for value in values) else values

    def by(self, name: str) -> Rows:
        """Sorted by a field."""
        return Rows(sorted(self, key=lambda row: getattr(row, name)))

    @property
    def samples(self) -> Rows:
        """Those of fewer users than all."""
        return self.where(source=lambda source: source != FULL)

    @property
    def best(self) -> Row:
        """The row of the largest value; a claim that needs it cannot be tested where there is none."""
        if not self:
            raise Untestable
        return max(self, key=lambda row: row.value)


# ---- from records to rows ---------------------------------------------------------------------------------
def data_of(record: Record) -> Data:
    """The data that the models of a record were fitted on."""
    data = record["configuration"]["data"]
    return Data(**{**data, "settings": pairs(**data["settings"])})


def column(source: str, users: int, model: str) -> str:
    """A model's name as Table 1's columns are named: `ease`, `distill-cf-500+infinite-ae`.

    The published recipe stands in the paper's column, like beside like; the other modes are named.
    """
    if source == FULL:
        return model
    called = {DISTILLED: f"{DISTILLED}-{DEFAULT_MODE}", PUBLISHED_KIND: DISTILLED}.get(source, source)
    return f"{called}-{users}+{model}"


def parts(records: Iterable[Record], of: Callable[[Record], Iterable[tuple[str, Mapping[str, Any]]]]) -> Rows:
    """The rows of parts of what was measured, such as periods. of: the label and the figures of each part."""
    return Rows(
        rows_of(
            {
                **record,
                "configuration": {**record["configuration"], "label": label},
                "measured": [{**record["measured"][0], **figures}],
            }
            for record in records
            for label, figures in of(record)
        )
    )


def rows_of(records: Iterable[Record]) -> list[Row]:
    """One row for each thing measured and each metric: seeds are brought together."""
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[_Measured]]] = {}
    for record in records:
        data, configuration = data_of(record), record["configuration"]
        quick = {*QUICK_STEPS, "epochs"} if configuration["quick"] else set()
        making = {name: value for name, value in data.settings if name not in {"mode", *quick}}
        for measured in record["measured"]:
            if "metrics" not in measured:
                continue
            fixed: dict[str, Any] = {}
            if measured["model"] in CHOSEN_ANEW:  # others have committed settings: nothing that is varied
                fixed = {k: v for k, v in measured["settings"].items() if k not in {"seed", *quick}}
            fields = {
                "dataset": configuration["dataset"],
                "source": data.name,
                "users": record["data"]["users"] if data.users is None else data.users,
                "noise": data.noise,
                "model": measured["model"],
                "settings": json.dumps(fixed, sort_keys=True) if fixed else "",
                "making": json.dumps(making, sort_keys=True) if making else "",
                "histories": measured.get("histories", "clean"),
                "label": configuration["label"],
            }
            _, group = groups.setdefault(tuple(fields.values()), (fields, []))
            spaces = {fit["model"]: fit["space"] for fit in configuration["fits"]}
            asked = {"settings": measured["settings"], "space": spaces.get(measured["model"])}
            if group and group[-1].asked != asked:
                group.clear()  # other settings or grids were committed since: the later ones alone count
            group.append(_Measured(configuration["seed"], asked, measured))
    return [row for fields, group in groups.values() for row in _rows(fields, group)]


class _Measured(NamedTuple):
    """The figures of a model in a record. asked: its settings and the values that were tried."""

    seed: int
    asked: Mapping[str, Any]
    figures: Mapping[str, Any]


def at_edge(measured: Mapping[str, Any]) -> bool:
    """Whether λ was chosen at an end of the values that validation could judge."""
    tried = measured.get("tried") or ()
    judged = {one["settings"].get("reg") for one in tried if one["score"] is not None} - {None}
    return len(judged) > 1 and measured["selected"].get("reg") in (min(judged), max(judged))


def _rows(fields: Mapping[str, Any], group: Sequence[_Measured]) -> Iterator[Row]:
    at = fields["dataset"], column(fields["source"], fields["users"], fields["model"])
    plain = not fields["noise"] and not fields["label"] and fields["histories"] == "clean"
    edge = sum(at_edge(one.figures) for one in group)
    for metric in group[0].figures["metrics"]:
        there = [one for one in group if one.figures["metrics"].get(metric) is not None]
        if not there:
            continue
        each = [one.figures for one in there]
        values = [m["metrics"][metric] for m in each]
        parts = [m.get("groups", {}).get(metric, ()) for m in each]
        bounds = [m["intervals"].get(metric) or (v, v) for m, v in zip(each, values, strict=True)]
        yield Row(
            **fields,
            metric=metric,
            value=fmean(values),
            low=fmean(low for low, _ in bounds),
            high=fmean(high for _, high in bounds),
            least=min(values),
            most=max(values),
            seeds=len(values),
            paper=published.value(*at, metric) if plain and "depth" not in fields["settings"] else None,
            by_seed=tuple((one.seed, value) for one, value in zip(there, values, strict=True)),
            groups=tuple(map(fmean, zip(*parts, strict=True))) if all(parts) else (),
            edge=edge,
        )
