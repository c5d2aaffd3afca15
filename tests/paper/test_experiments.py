"""Every experiment, from the command line to the report, on a log of 120 users."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infrec import models, paper
from infrec.data import Interactions
from infrec.data.export import export
from infrec.paper import ablation, experiment, runner, weighted
from infrec.paper.cells import Data
from infrec.paper.records import FILE, Records
from infrec.report import figures
from infrec.report.document import Figure
from tests.cli.conftest import Infrec, infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")

__all__ = ["infrec"]

CLOSED = ("infinite-ae", "ease", "poprec")
# What a tiny run leaves out: training every model takes longer than it teaches here.
ONLY = {
    "table1": CLOSED,
    "cold": CLOSED,
    "transfer-mvae": ("full", "user-rns"),
    "augmentation": ("full", "user-rns", "ar-cf"),
    "continual": ("individual", "ader"),
    "continual-periods": ("individual", "ader"),
}
# In an order in which later ones find what earlier ones measured.
ORDER = ("statistics", "table1", "cold", "sample-efficiency", "transfer-ease", "noise-samplers",
         "noise-infinite-ae", "depth", "ablation", "selection", "transfer-mvae", "augmentation",
         "deanonymise-noise", "deanonymise-reveal", "leakage", "continual",
         "continual-periods", "bytes", "transfer")  # fmt: skip


@pytest.fixture(scope="module")
def place(small_log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the data and, once they are run, everybody's records; a grid as small as it can be.

    Pages are written after every command: a figure with nothing new in it is drawn once.
    """
    drawn: dict[bytes, str] = {}

    def drawn_once(figure: Figure) -> str:
        key = pickle.dumps(figure)
        if key not in drawn:
            drawn[key] = draw(figure)
        return drawn[key]

    draw = figures.draw
    folder = tmp_path_factory.mktemp("reproduce")
    time = np.random.default_rng(5).permutation(small_log.n_interactions) + 10**6
    export(dataclasses.replace(small_log, time=time), folder / "tiny.parquet", "parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "QUICK_BUDGETS", (30,))
        patch.setattr(experiment, "QUICK_STEPS", {"steps": 4, "validate_every": 2})
        patch.setattr("infrec.distillation.dp_sums.STEPS", 20)
        patch.setattr(figures, "draw", drawn_once)
        variants = [
            v for v in ablation.variants(True) if v[1] in ("on the fly", "fixed 5", "top-k", "soft, no noise")
        ]
        patch.setattr(ablation, "variants", lambda quick: variants)
        yield folder


def call(infrec: Infrec, place: Path, name: str, *more: object) -> Any:
    only = [word for each in ONLY.get(name, ()) for word in ("--only", each)]
    data = ("--dataset", place / "tiny.parquet", "--records", place / "results")
    return infrec("reproduce", name, "--quick", *data, *only, *more)


@pytest.mark.parametrize("name", ORDER)
def test_an_experiment_from_end_to_end(
    name: str, infrec: Infrec, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "selection":
        monkeypatch.setattr("infrec.models.NAMES", CLOSED)
    ran = call(infrec, place, name, "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert (document["what"], document["quick"], document["failed"]) == (name, True, [])
    assert document["rows"]
    for row in document["rows"]:
        assert {"dataset", "metric", "model", "value", "paper"} <= set(row)
        assert row["dataset"] == "tiny"
        assert row["paper"] is None  # the paper has no such dataset
        assert isinstance(row["value"], int | float)
    assert {claim["verdict"] for claim in document["claims"]} <= {"cannot be tested here"}  # a quick look
    page = Path(document["report"])
    assert page == place / "results" / name / "index.html"
    text = page.read_text(encoding="utf-8")
    assert paper.get(name).title in text
    assert "quick look" in text or name in ("statistics", "depth", "cold")
    assert (page.parent / "README.md").read_text(encoding="utf-8").startswith("# ")
    for figure in page.parent.glob("*.svg") if name not in ("ablation", "selection") else ():
        assert "not measured" not in figure.read_text(encoding="utf-8")
    # Once more: nothing is left to do, and the answer is the same.
    before = (page.parent / FILE).read_bytes()
    again = call(infrec, place, name, "--json").document
    assert (page.parent / FILE).read_bytes() == before
    assert again["rows"] == document["rows"]


def test_every_experiment_is_tested_here() -> None:
    assert set(ORDER) == set(paper.NAMES)


def test_work_is_shared(infrec: Infrec, place: Path) -> None:
    """Cells that experiments share have one record, and a summary is distilled once."""
    assert call(infrec, place, "table1").code == 0
    assert call(infrec, place, "sample-efficiency").code == 0
    one, other = (Records(place / "results" / name).read() for name in ("table1", "sample-efficiency"))
    shared = set(one) & set(other)
    assert shared
    assert all(one[cell] == other[cell] for cell in shared)
    summaries = [path for path in (place / "results" / "summaries").iterdir() if path.is_dir()]
    noiseless = {
        r["data"]["distill_seconds"]
        for records in (one, other)
        for r in records.values()
        if r["data"].get("mode")
    }
    assert len(summaries) >= len(noiseless) >= 2


def test_the_index_lists_them(infrec: Infrec, place: Path) -> None:
    assert call(infrec, place, "statistics").code == 0
    ran = infrec("reproduce", "all", "--report-only", "--records", place / "results", "--json")
    assert ran.code == 0
    index = (place / "results" / "index.html").read_text(encoding="utf-8")
    assert ran.document["report"] == str(place / "results" / "index.html")
    assert paper.get("statistics").title in index


# ---- asking wrongly ----------------------------------------------------------------------------------------
def test_an_unknown_experiment(infrec: Infrec) -> None:
    ran = infrec("reproduce", "table2")
    assert ran.code == 2
    assert "table1" in ran.err


def test_an_unknown_word_for_only_names_what_there_is(infrec: Infrec, place: Path, tmp_path: Path) -> None:
    data = ("--dataset", place / "tiny.parquet", "--records", tmp_path)
    ran = infrec("reproduce", "depth", "--quick", "--only", "wide", *data)
    assert ran.code == 2
    assert "infinite-ae" in ran.err


def test_no_dataset_is_found(infrec: Infrec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFREC_DATA", str(tmp_path))
    monkeypatch.setenv("INFREC_CACHE", str(tmp_path))
    ran = infrec("reproduce", "depth", "--records", tmp_path / "results")
    assert ran.code == 1
    assert "--dataset" in ran.err


def test_a_place_that_cannot_be_written(infrec: Infrec, place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    data = ("--dataset", place / "tiny.parquet", "--records", tmp_path / "file")
    ran = infrec("reproduce", "depth", "--quick", *data)
    assert ran.code == 1
    assert "--records" in ran.err


# ---- plans -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", paper.NAMES)
def test_the_full_grid_is_what_the_issue_asks_for(name: str) -> None:
    """Budgets, noise levels, depths and seeds of the real grids, without running them."""
    plan = experiment.Plan(("ml-1m",), experiment.SEEDS[:3], {"ml-1m": 6040})
    cells = paper.get(name).cells(plan)
    assert len({cell.hash for cell in cells}) == len(cells)
    assert not any(cell.quick for cell in cells)
    if name in ("sample-efficiency", "transfer-ease", "noise-infinite-ae"):
        assert {cell.data.users for cell in cells} == {50, 100, 200, 500, 1000, 2000, None}
    if name.startswith("noise"):
        assert {cell.data.noise for cell in cells} == {0.0, 0.5, 1.0, 2.0, 5.0}
    if name == "sample-efficiency":
        sources = {"full", "interaction-rns", "user-rns", "head-user", "svp-cf", "distill-cf"}
        assert {cell.data.source for cell in cells} == sources
        random_ = [cell for cell in cells if cell.data.source == "user-rns" and cell.data.users == 500]
        assert [cell.seed for cell in random_] == [42, 1, 2]
    if name == "depth":
        assert [json.loads(json.dumps(dict(cell.fits[0].settings)))["depth"] for cell in cells] == [
            1,
            2,
            3,
            4,
            5,
            6,
        ]


def test_committed_settings_are_used(tmp_path: Path, place: Path) -> None:
    from infrec.search import committed

    found = committed.Selected("tiny", "mf", {"latent": 8, "epochs": 9, "seed": 7}, 12.0)
    committed.write(found, tmp_path / "selected")
    plan = runner.plan(paper.get("table1"), [str(place / "tiny.parquet")], root=tmp_path)
    fit = plan.fit(str(place / "tiny.parquet"), "mf")
    assert dict(fit.settings) == {"latent": 8, "epochs": 9}
    fewer = plan.fit(str(place / "tiny.parquet"), "mf", Data("user-rns", 30))
    assert dict(fewer.settings) == {"latent": 8}
    again = runner.plan(paper.get("table1"), [str(place / "tiny.parquet")], root=tmp_path, search=True)
    assert again.fit(str(place / "tiny.parquet"), "mf").search == runner.SEARCH_SECONDS


def test_records_elsewhere_still_find_the_committed_settings(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infrec.search import committed

    monkeypatch.chdir(tmp_path)
    data = str(place / "tiny.parquet")
    committed.write(committed.Selected("tiny", "mf", {"latent": 8}, 12.0))
    plan = runner.plan(paper.get("table1"), [data], root=tmp_path / "elsewhere")
    assert dict(plan.fit(data, "mf").settings) == {"latent": 8}
    committed.write(
        committed.Selected("tiny", "mf", {"latent": 4}, 12.0), tmp_path / "elsewhere" / "selected"
    )
    assert dict(plan.fit(data, "mf").settings) == {"latent": 4}, "one's own come first"


@pytest.mark.parametrize("name", paper.NAMES)
def test_every_model_of_the_whole_grid_can_be_made(name: str, place: Path) -> None:
    """The grid that tiny runs are too short for: a setting that no model takes would fail hours later."""
    experiment = paper.get(name)
    plan = runner.plan(experiment, [str(place / "tiny.parquet")], root=place, quick=False, seeds=1)
    fits = {fit for cell in experiment.cells(plan) for fit in cell.fits}
    for fit in fits:
        if fit.model not in weighted.PEERS:
            models.create(fit.model, **dict(fit.settings))
