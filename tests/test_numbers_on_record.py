"""Every figure of a results table in README and docs is on record, or the text beside it says it is not.

A figure is looked up by dataset, model and metric: in the records of the experiments, in those of the
benchmarks, and (the paper's) in Table 1; or in the record that the paragraph above or below the table names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infrec.paper import published
from infrec.paper.results import Results

ROOT = Path(__file__).parent.parent
RESULTS, BENCHMARKS = ROOT / "results", ROOT / "benchmarks" / "results"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
METRIC = re.compile(r"(?:HR|NDCG|PSP|Recall)@\d+|\bAUC\b|\bFPR\b")
NUMBER = re.compile(r"(?<![\w.,−-])(\d*\.(\d+))(?![\w.]*\.)")
NOT_KEPT = "not on record"
DATASETS = {"ML-1M": "ml-1m", "magazine": "magazine", "douban-book": "douban-book", "douban": "douban"}
MODELS = {"popularity": "poprec", "EASE": "ease", "∞-AE-plus": "infinite-ae-plus", "∞-AE": "infinite-ae",
          "MF": "mf", "LightGCN": "lightgcn", "MVAE": "mvae", "implicit ALS": "implicit-als"}  # fmt: skip
Pool = set[float]


@dataclass(frozen=True)
class Table:
    """A table of a page, with the paragraphs above and below it."""

    page: Path
    line: int
    head: list[str]
    rows: list[list[str]]
    around: str

    @property
    def has_results(self) -> bool:
        return any(METRIC.search(text) for text in (*self.head, self.above))

    @property
    def above(self) -> str:
        return self.around.split("\0")[0].split("\n\n")[-1]


def tables(page: Path) -> Iterator[Table]:
    lines = page.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        if end - at > 2:
            grid = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[at:end]]
            above, below = "\n".join(lines[:at]).rstrip(), "\n".join(lines[end:]).lstrip()
            around = above.split("\n\n")[-1] + "\0" + below.split("\n\n")[0]
            yield Table(page, at + 1, grid[0], grid[2:], around)
        at = max(end, at + 1)


def numbers(text: str) -> Iterator[tuple[float, int]]:
    """The numbers of a text that have decimals, and how many they have."""
    for found in NUMBER.finditer(text):
        yield float(found[1]), len(found[2])


# ---- what is on record -------------------------------------------------------------------------------------
@cache
def known() -> Mapping[tuple[str, str, str], Pool]:
    """Values by dataset, model and metric, as measured on all users."""
    pools: dict[tuple[str, str, str], Pool] = {}
    for name in ("table1", "cold"):
        for row in Results.at(RESULTS, name).rows:
            if row.source in ("full", "distill-cf-published"):
                model = row.model if row.source == "full" else f"{row.model} as published"
                pools.setdefault((row.dataset, model, row.metric), set()).add(row.value)
    quality = json.loads((BENCHMARKS / "quality-2026-11-16.json").read_text(encoding="utf-8"))
    for dataset, about in quality["data"].items():
        for name, model in about["models"].items():
            for metric, values in _metrics(model).items():
                pools.setdefault((dataset, name.split(",")[0], metric), set()).update(values)
    for (dataset, model, metric), value in published.table1().items():
        pools.setdefault((dataset, f"{model}, the paper", metric), set()).add(value)
    return pools


def _metrics(model: Any) -> dict[str, Pool]:
    """The values of each metric anywhere in a document."""
    found: dict[str, Pool] = {}
    for inner in model.values() if isinstance(model, dict) else model if isinstance(model, list) else ():
        for metric, values in _metrics(inner).items():
            found.setdefault(metric, set()).update(values)
    if isinstance(model, dict):
        for name, value in model.items():
            if METRIC.fullmatch(name) and isinstance(value, float):
                found.setdefault(name, set()).add(value)
    return found


@cache
def everything_in(path: Path) -> Pool:
    """All numbers of a record: a JSON file of a benchmark, or the page of an experiment's records."""
    text = path.read_text(encoding="utf-8")
    return {value for value, _ in numbers(re.sub(r"[–/()|*]", " ", text.replace("e-", "E")))}


def named(text: str) -> Iterator[Path]:
    """The records that a text names."""
    for name in re.findall(r"benchmarks/results/([\w.-]+\.(?:json|md))", text):
        yield BENCHMARKS / name
    for name in re.findall(r"results/([\w-]+)/README\.md|infrec reproduce ([\w-]+)", text):
        if (path := RESULTS / "".join(name) / "README.md").is_file():
            yield path


def supported(value: float, digits: int, pool: Iterable[float]) -> bool:
    return any(abs(value - one) <= 0.5 * 10.0**-digits + 1e-9 for one in pool)


def unsupported(table: Table) -> list[str]:
    """The figures of a table that no record has."""
    sources = [everything_in(path) for path in named(table.around)]
    dataset = next((name for word, name in DATASETS.items() if word in f"{table.head[0]} {table.above}"), "")
    missing = []
    for first, *cells in table.rows:
        for name, cell in zip(table.head[1:], cells, strict=False):
            column = METRIC.search(name) or METRIC.search(table.head[0]) or METRIC.search(table.above)
            if column is None or name in ("seconds", "one fit", "choose"):
                continue
            figures = list(numbers(re.sub(r"[–/()*]", " ", cell)))
            own = known().get((dataset, model_of(first, name), column[0]), set())
            if not sources and METRIC.search(name + table.head[0]):
                figures = figures[:1]  # the interval stands behind it
            missing += [
                f"{table.page.name}:{table.line}: {first}, {name}: {value:g}"
                for value, digits in figures
                if not any(supported(value, digits, pool) for pool in (own, *sources))
            ]
    return missing


def model_of(first: str, column: str) -> str:
    """The model that a line is about, and whose figure it is."""
    text = first.replace("*", "").split(":")[0].split(" (")[0].split(",")[0].strip()
    model = MODELS.get(text, "")
    if "as published" in first:
        model = "infinite-ae as published"
    of_paper = "the paper" in column or first.rstrip().endswith("the paper")
    if of_paper and "as published" in first:
        return f"{published.DISTILLED_COLUMN}, the paper"
    return f"{model}, the paper" if of_paper else model


# ---- tests -------------------------------------------------------------------------------------------------
TABLES = [table for page in PAGES for table in tables(page) if table.has_results]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.page.stem}:{table.line}")
def test_every_figure_of_a_results_table_is_on_record(table: Table) -> None:
    if NOT_KEPT not in table.around.lower():
        assert not unsupported(table)


def test_a_figure_without_a_record_is_found(tmp_path: Path) -> None:
    """Of a known model, of an unknown one, and in a table whose record is named."""
    page = tmp_path / "page.md"
    page.write_text(
        "Test figures:\n\n| ML-1M | HR@10 | AUC |\n|---|---|---|\n| EASE | 32.26 (31.7–32.8) | .9456 |\n"
        "| ∞-AE | 31.92 | .9462 |\n| Other | 30.00 | – |\n\nSee `benchmarks/results/quality-2026-11-16.json`:"
        "\n\n| | HR@10 |\n|---|---|\n| all of it | 33.22 / 61.79 |\n",
        encoding="utf-8",
    )
    first, second = tables(page)
    first = replace(first, around="")
    assert unsupported(first) == ["page.md:3: ∞-AE, HR@10: 31.92", "page.md:3: Other, HR@10: 30"]
    assert unsupported(second) == ["page.md:11: all of it, HR@10: 61.79"]


def test_the_tables_that_have_records_are_looked_up() -> None:
    """Most of them: what was not kept is said beside the table, and is the exception."""
    marked = [table for table in TABLES if NOT_KEPT in table.around.lower()]
    assert len(TABLES) >= 18 and len(marked) <= 6


def test_the_count_of_claims_names_its_denominator() -> None:
    """README quotes the first page of the results, which is rebuilt from records."""
    index = (RESULTS / "README.md").read_text(encoding="utf-8")
    (count,) = re.findall(
        r"^Of (\d+) verdicts on the paper's claims on the paper's datasets .*$", index, re.M
    )
    line = next(line for line in index.splitlines() if line.startswith(f"Of {count} verdicts on the paper"))
    held, failed, undecided, untested = re.findall(r"(\d+) (?:hold|do not|are undecided|cannot)", line)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = (
        f"Of {count} verdicts on the paper's claims on its own datasets, {held} hold, {failed} do not, "
        f"{undecided} are undecided and {untested} cannot be tested yet"
    )
    assert said in readme
