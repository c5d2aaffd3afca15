"""Nothing is chosen on the test part: with other test items, every setting and every summary stays as it was.

For every experiment and for `infrec evaluate`, the test items of all users are exchanged. What is tried on
validation, what is chosen and what is distilled must not change; what is measured must, or this test could
not fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import scipy.sparse as sp

from infrec import paper
from infrec.data import Interactions
from infrec.data.export import export
from infrec.models import create
from infrec.paper import ablation, continual_strategies, experiment, measure
from infrec.paper.cells import HEURISTICS, PERIODS, Cell, Data, Fit, pairs
from infrec.paper.experiment import Plan
from infrec.progress import Stopwatch, silent
from infrec.search import tune
from infrec.splits import Split, holdout
from tests.cli.conftest import Infrec, infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")

__all__ = ["infrec"]

DATASET = "small"
STEPS = {"steps": 4, "validate_every": 2}
# Models that choose: in closed form, and one that is trained by epochs; the others go through the same doors.
CHOOSING = ("infinite-ae", "ease", "mvae")
TIMES = ("seconds", "distill_seconds", "ms_per_step", "finished")  # differ from run to run
NAMES = [name for name in paper.NAMES if not name.startswith(("continual", "statistics"))]
Way = tuple[Any, ...]
TESTED: set[Way] = set()  # experiments have ways in common


@pytest.fixture(scope="module")
def split(small_log: Interactions) -> Split:
    return holdout(small_log, seed=measure.SPLIT_SEED)


@pytest.fixture(scope="module")
def plan() -> Iterator[Plan]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "QUICK_BUDGETS", (30,))
        patch.setattr(experiment, "QUICK_STEPS", STEPS)
        patch.setattr(experiment, "QUICK_EPOCHS", 2)
        variants = [v for v in ablation.variants(True) if v[1] in ("on the fly", "fixed 5", "top-k")]
        patch.setattr(ablation, "variants", lambda quick: variants)
        yield Plan((DATASET,), (42,), {DATASET: 120}, quick=True)


def exchanged(split: Split) -> Split:
    """The split with other test items: as many for every user, none of them known."""
    rng = np.random.default_rng(11)
    known = (split.train.matrix + split.val.matrix).toarray() > 0
    test = split.test.matrix.toarray() > 0
    other = np.zeros(test.shape, np.float32)
    for user, items in enumerate(test):
        free = np.flatnonzero(~known[user] & ~items)
        other[user, rng.choice(free, items.sum(), replace=False)] = 1
    return dataclasses.replace(split, test=split.test.with_matrix(sp.csr_array(other)))


def lasting(value: Any) -> Any:
    """A record without times."""
    if isinstance(value, dict):
        return {name: lasting(inner) for name, inner in value.items() if name not in TIMES}
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


def ways(name: str, plan: Plan) -> dict[Way, Cell]:
    """A cell of an experiment's quick grid for each way of making data, of choosing, and of measuring."""
    found: dict[Way, Cell] = {}
    for cell in paper.get(name).cells(plan):
        # Releases with ε and δ take their noise from the operating system: no two are alike. They are made
        # of the train part alone, which `summaries.distilled` passes on.
        if dict(cell.data.settings).get("noise_multiplier"):
            continue
        known = [fit for fit in cell.fits if fit.model in CHOOSING]
        if cell.fits and not known:
            continue
        fits = tuple(known[:2])
        # Models differ in how they choose; on which of several samples they do it makes no difference.
        models = tuple((fit.model, bool(fit.space)) for fit in fits)
        asked = (models, bool(cell.data.noise), cell.beyond, bool(cell.attack))
        way = (cell.data.name, () if cell.data.source in HEURISTICS[1:] else asked)
        found.setdefault(way, dataclasses.replace(cell, fits=fits))
    return found


def chosen_and_measured(
    cell: Cell, split: Split, folder: Path, patch: pytest.MonkeyPatch
) -> tuple[list[Any], list[Any]]:
    """All that must not depend on the test part, and all that must."""
    patch.setattr(measure, "load", lambda dataset: split)
    measure.noisy.cache_clear()
    record = lasting(measure.measure_cell(cell, folder))
    lines = record["measured"]
    choices = [{key: line.get(key) for key in ("model", "settings", "selected", "tried")} for line in lines]
    summaries = [path.read_bytes() for path in sorted(folder.glob("*/interactions.parquet"))]
    return [record["data"], choices, summaries], [line.get("metrics") for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_with_other_test_items_nothing_else_is_chosen(
    name: str, plan: Plan, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ways(name, plan)
    assert own
    other = exchanged(split)
    for number, (way, cell) in enumerate(own.items()):
        if way in TESTED:
            continue
        first, figures = chosen_and_measured(cell, split, tmp_path / f"{number}a", monkeypatch)
        second, others = chosen_and_measured(cell, other, tmp_path / f"{number}b", monkeypatch)
        assert first == second, cell.words
        if not cell.attack:  # attacks look at the train part alone
            assert figures != others, cell.words
        TESTED.add(way)


def test_evaluate_chooses_the_same_with_other_test_items(
    infrec: Infrec, split: Split, tmp_path: Path
) -> None:
    """From the command line, on files with a column `split`: models whose search takes no time."""
    answers = []
    for number, one in enumerate((split, exchanged(split))):
        parts = {"train": one.train, "validation": one.val, "test": one.test}
        rows = [
            {"user": f"u{user:03}", "item": f"i{item:02}", "split": part}
            for part, log in parts.items()
            for user, item in zip(*log.matrix.tocoo().coords, strict=True)
        ]
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(pa.Table.from_pylist(rows), path)
        ran = infrec("evaluate", path, "--model", "infinite-ae", "--model", "ease", "--json")
        assert ran.code == 0, ran.err
        answers.append(ran.document["results"])
    chosen = [[(one["selected"], lasting(one["candidates"])) for one in results] for results in answers]
    assert chosen[0] == chosen[1]
    assert [one["metrics"] for one in answers[0]] != [one["metrics"] for one in answers[1]]


def test_tuning_on_a_split_looks_at_no_test_part(split: Split) -> None:
    tuned = [tune(create("ease"), one) for one in (split, exchanged(split))]
    (one, other) = [[(c.settings, c.score) for c in each.candidates] for each in tuned]
    assert one == other and tuned[0].selected == tuned[1].selected


def test_an_update_does_not_see_the_period_that_it_is_measured_on(
    small_log: Interactions, tmp_path: Path
) -> None:
    """The experiments of continual learning have no test part: there it is the next period."""
    time = np.random.default_rng(5).permutation(small_log.n_interactions) + 10**6
    export(dataclasses.replace(small_log, time=time), tmp_path / "timed.parquet", "parquet")
    first, second, third = continual_strategies.cut(str(tmp_path / "timed.parquet"), 3)
    mirrored = third.with_matrix(sp.csr_array(third.matrix[:, ::-1]), time=third.time)
    settings = pairs(strategy="distill-cf", periods=3, exemplars=10, most_epochs=3, **STEPS)
    cell = Cell("timed", 7, Data(PERIODS, settings=settings), (Fit("mvae", pairs(latent=8, hidden=32)),))
    ends = []
    for ahead in (third, mirrored):
        walk = continual_strategies.Walk(cell, (first, second, ahead), 60, Stopwatch(), silent)
        walk.step()
        walk.step()
        ends.append(
            (walk.state.memory.parameters, walk.state.memory.exemplars, walk.state.measured[-1]["metrics"])
        )
    (parameters, exemplars, metrics), (again, exemplars_again, others) = ends
    assert all((parameters[key] == again[key]).all() for key in parameters)
    assert (exemplars != exemplars_again).nnz == 0
    assert metrics != others
