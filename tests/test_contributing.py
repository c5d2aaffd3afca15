"""Each example of CONTRIBUTING.md runs, in the place that the page names for it."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest

from infrec import models
from infrec.data import Interactions, datasets
from infrec.errors import ConfigError, DataError
from infrec.evaluation import evaluate
from infrec.models import PopRec
from infrec.registry import MODELS, Model
from infrec.splits import holdout

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^### An? (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
PATHS = re.compile(r"`((?:models|kernels|samplers|data|paper|cli|report)/\w+\.py)`")
NEW = {"models/item_cosine.py", "paper/popularity.py"}  # the files of the examples


def example(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The only example of a section, as a module of its own."""
    (code,) = re.findall(r"^```python\n(.*?)^```", dict(SECTIONS)[kind], re.MULTILINE | re.DOTALL)
    file = folder / f"contributed_{kind}.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    return module


def test_there_is_an_example_of_each_kind_and_its_files_exist() -> None:
    assert [kind for kind, _ in SECTIONS] == ["model", "kernel", "sampler", "dataset", "experiment"]
    source = Path(models.__file__).parents[1]
    for _, text in SECTIONS:
        files = set(PATHS.findall(text))
        assert files and all((source / name).is_file() for name in files - NEW), files


def test_the_model_is_chosen_saved_and_better_than_popularity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_log: Interactions
) -> None:
    made = example("model", tmp_path, monkeypatch)
    entry = Model(made.__name__, "ItemCosine", "Item cosine", 3, "o")
    monkeypatch.setitem(MODELS, "item-cosine", entry)
    split = holdout(small_log, seed=42)
    model = models.create("item-cosine").fit(split.train, validation=split.val)
    assert model.selected["shrink"] in (1, 10, 100) and len(model.candidates) == 3
    popular = PopRec().fit(split.train)
    assert evaluate(model, split).metrics["HR@10"] > 1.3 * evaluate(popular, split).metrics["HR@10"]
    model.save(tmp_path / "saved")
    again = models.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.score(split.train.matrix), model.score(split.train.matrix))
    with pytest.raises(ConfigError, match="shrink is 0; expected a number above 0 or 'auto'"):
        models.create("item-cosine", shrink=0)


def test_the_kernel_solves_the_ridge_regression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = example("kernel", tmp_path, monkeypatch)
    x = made.histories.toarray().astype(np.float64)
    kernel = (x @ x.T / x.shape[1] + 1) ** 2
    added = 0.1 * np.trace(kernel) / len(x) * np.eye(len(x))
    np.testing.assert_allclose(made.scores, kernel @ np.linalg.solve(kernel + added, x), atol=1e-9)


def test_the_sampler_takes_users_from_the_front_of_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = importlib.import_module("infrec.samplers.sample")
    made = example("sampler", tmp_path, monkeypatch)
    for name, order in made.SAMPLERS.items():
        monkeypatch.setitem(sampling.SAMPLERS, name, order)
    # Item 0 is chosen by four users, items 1 and 2 by one: means 4, 4, (4 + 1) / 2 and (4 + 1) / 2.
    log = Interactions.from_csr(np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1]]))
    chosen = sampling.sample(log, strategy="rare-items", users=2)
    assert chosen.users.ids.to_pylist() == log.users.ids.to_pylist()[2:]


def test_the_dataset_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry: Any = example("dataset", tmp_path, monkeypatch).ENTRY
    monkeypatch.setattr(datasets, "entries", MappingProxyType({entry.name: entry}))
    monkeypatch.setenv("INFREC_DATA", str(tmp_path))
    with pytest.raises(DataError, match="ask the club"):
        datasets.download(entry.name)
    (tmp_path / "film-club.csv").write_text("user,item,rating\nann,Alien,5\nbob,Brazil,4\nbob,Alien,3\n")
    log = datasets.load("film-club")
    assert (log.n_users, log.n_items, log.n_interactions) == (2, 2, 3)


def test_the_experiment_is_run_and_decides_its_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from infrec.paper import runner
    from infrec.paper.experiment import Plan
    from infrec.paper.results import Results

    experiment = example("experiment", tmp_path, monkeypatch).EXPERIMENT
    plan = Plan(datasets=("demo",), seeds=(42,), users={"demo": 1000})
    cells = experiment.cells(plan)
    outcome = runner.run(cells, tmp_path / experiment.name)
    assert len(cells) == 1 and not outcome.errors
    found = experiment.findings(Results.at(tmp_path, experiment.name))
    (claim,), (table,) = found.claims, found.tables
    assert (claim.dataset, claim.verdict) == ("demo", "holds")
    assert [line[0] for line in table.rows] == ["ease", "poprec"]
