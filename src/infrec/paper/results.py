"""Records → rows: one for each thing that was measured and each metric, over all seeds."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from infrec.paper import published
from infrec.paper.cells import CHOSEN_ANEW, DEFAULT_MODE, DISTILLED, FULL, Data, pairs
from infrec.paper.experiment import QUICK_STEPS
from infrec.paper.records import LOOK, Record, Records

MAIN = f"{DISTILLED}-published"


@dataclass(frozen=True)
class Row:
    """value: the mean over seeds. low, high: the 95 % interval over users, also a mean over seeds.

    least, most: over seeds. model: as Table 1 names its columns. users: what the model was fitted on.
    settings: those of the model that the experiment fixed; making: those of the distillation.
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

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: without what is not set."""
        hidden = {name for name in ("settings", "making", "label") if not getattr(self, name)}
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
        """Those whose fields have these values; a callable decides itself."""
        return Rows(
            row
            for row in self._rows
            if all(
                value(getattr(row, name)) if callable(value) else getattr(row, name) == value
                for name, value in wanted.items()
            )
        )

    def get(self, **wanted: Any) -> Row | None:
        """The first such row."""
        return next(iter(self.where(**wanted)), None)

    def every(self, name: str) -> list[Any]:
        """The values of a field, each once: numbers sorted, words in the order of the records."""
        found = list(dict.fromkeys(getattr(row, name) for row in self._rows))
        return sorted(found) if all(isinstance(value, int | float) for value in found) else found


@dataclass(frozen=True)
class Results:
    """The records of one experiment, and the way to those of the others."""

    records: Sequence[Record]
    others: Callable[[str], Results]

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", _with_short_names(self.records))

    @cached_property
    def rows(self) -> Rows:
        return Rows(rows_of(self.records))

    def by_dataset(self) -> dict[str, Results]:
        """The results on each dataset, in the order of `datasets`."""
        return {
            name: Results([r for r in self.records if r["configuration"]["dataset"] == name], self.others)
            for name in self.datasets()
        }

    def datasets(self) -> list[str]:
        """The datasets that have records, in the order of the paper's table, then the others."""
        there = {record["configuration"]["dataset"] for record in self.records}
        known = ["magazine", "ml-1m", "douban", "douban-book", "netflix"]
        return [name for name in known if name in there] + sorted(there - set(known))

    def quick_datasets(self) -> list[str]:
        """The datasets of which there is only a quick look."""
        return sorted({r["configuration"]["dataset"] for r in self.records if of_a_look(r)})

    @classmethod
    def at(cls, root: Path, name: str) -> Results:
        """Results of an experiment, from its records under `root`."""
        found = Records(root / name).read().values()
        # Where a dataset was also measured in earnest, its quick records have served their purpose.
        earnest = {r["configuration"]["dataset"] for r in found if not of_a_look(r)}
        kept = [r for r in found if not (of_a_look(r) and r["configuration"]["dataset"] in earnest)]
        return cls(kept, lambda other: cls.at(root, other))


def of_a_look(record: Record) -> bool:
    """Whether only a quick look has asked for it, shortened or not."""
    return bool(record["configuration"]["quick"] or record.get(LOOK))


def _with_short_names(records: Sequence[Record]) -> list[Record]:
    """A dataset that was given as a path is called by the file's name, where that is one dataset's alone."""
    given = {record["configuration"]["dataset"] for record in records}
    called = {name: Path(name).stem if os.sep in name else name for name in given}
    shared = {short for short, count in Counter(called.values()).items() if count > 1}
    called = {name: name if short in shared else short for name, short in called.items()}
    return [
        {**r, "configuration": {**r["configuration"], "dataset": called[r["configuration"]["dataset"]]}}
        for r in records
    ]


def data_of(record: Record) -> Data:
    """The data that the models of a record were fitted on."""
    data = record["configuration"]["data"]
    return Data(data["source"], data["users"], data["noise"], pairs(**data["settings"]))


def column(source: str, users: int, model: str) -> str:
    """A model's name as Table 1's columns are named: `ease`, `distill-cf-500+infinite-ae`.

    The published recipe stands in the paper's column, like beside like; the other modes are named.
    """
    if source == FULL:
        return model
    called = {DISTILLED: f"{DISTILLED}-{DEFAULT_MODE}", MAIN: DISTILLED}.get(source, source)
    return f"{called}-{users}+{model}"


def part(record: Record, label: str, measured: Mapping[str, Any]) -> Record:
    """One part of what a record measured, such as a period, as a record with this label."""
    configuration = {**record["configuration"], "label": label}
    return {**record, "configuration": configuration, "measured": [{**record["measured"][0], **measured}]}


def rows_of(records: Iterable[Record]) -> list[Row]:
    """One row for each thing measured and each metric: seeds are brought together."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        data, configuration = data_of(record), record["configuration"]
        users = record["data"]["users"] if data.users is None else data.users
        quick = {*QUICK_STEPS, "epochs"} if configuration["quick"] else set()
        making = {name: value for name, value in data.settings if name not in {"mode", *quick}}
        for measured in record["measured"]:
            if "metrics" not in measured:
                continue
            fixed = {
                name: value for name, value in measured["settings"].items() if name not in {"seed", *quick}
            }
            if measured["model"] not in CHOSEN_ANEW:  # committed settings, not something that is varied
                fixed = {}
            key = (
                configuration["dataset"],
                data.name,
                users,
                data.noise,
                measured["model"],
                json.dumps(fixed, sort_keys=True) if fixed else "",
                json.dumps(making, sort_keys=True) if making else "",
                measured.get("histories", "clean"),
                configuration["label"],
            )
            group = groups.setdefault(key, [])
            if group and group[-1]["settings"] != measured["settings"]:
                group.clear()  # other settings were committed since: the later ones alone count
            group.append(measured)
    return [row for key, measured in groups.items() for row in _rows(key, measured)]


def _rows(key: tuple[Any, ...], measured: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    dataset, source, users, noise, model, settings, making, histories, label = key
    plain = not noise and not label and histories == "clean"
    for metric in measured[0]["metrics"]:
        each = [m for m in measured if m["metrics"].get(metric) is not None]
        if not each:
            continue
        values = [m["metrics"][metric] for m in each]
        bounds = [m["intervals"].get(metric) or (v, v) for m, v in zip(each, values, strict=True)]
        at = column(source, users, model)
        yield Row(
            dataset=dataset,
            source=source,
            users=users,
            noise=noise,
            model=model,
            metric=metric,
            value=fmean(values),
            low=fmean(low for low, _ in bounds),
            high=fmean(high for _, high in bounds),
            least=min(values),
            most=max(values),
            seeds=len(values),
            paper=published.value(dataset, at, metric) if plain and "depth" not in settings else None,
            settings=settings,
            making=making,
            histories=histories,
            label=label,
        )
