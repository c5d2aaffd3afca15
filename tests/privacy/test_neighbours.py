"""Two logs that differ by one user go through the command line: no released sum moves by more than 1.

Whatever `infrec distill --noise-multiplier …` does before the noise is in the way: reading, setting users
aside, the catalogue, cutting long histories. Hypothesis chooses logs, options and the user who is removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from typer.main import get_command

from infrec.cli.app import app
from infrec.distillation import dp_sums, private
from infrec.distillation.dp_sums import Sums
from infrec.errors import DataError

Row = dict[str, str]
COLUMNS = ("user", "item", "weight", "time", "rating", "split", "title")
ANCHOR: Row = dict(zip(COLUMNS, ("0", "1", "1", "1", "5", "train", "one"), strict=True))  # always usable
USERS = ["2", "3", "7", "30", "u", "007", "é", "1e3"]
ITEMS = ["1", "2", "3", "10", "30", "b", "01", "é", "1.0"]
USUAL = {"weight": ["1", "2.5"], "time": ["5", "86400"], "rating": ["4", "5"], "title": ["one", ""]}
USUAL["split"] = ["train", "train", "train", "test"]
ODD = {
    "weight": ["0", "-1", "many"],
    "time": ["2024-05-17", "2024-05-17T10:00:00Z", "yesterday", ""],
    "rating": ["1", "good", ""],
    "split": ["val", "other", ""],
    "title": ["two"],
}
CATALOGUE = ["1", "2", "10", "b", "é", "not in any log"]


@dataclass(frozen=True, eq=False)
class Taken:
    """What the command line took from a log: sums without noise, and the text of each column's item."""

    sums: Sums
    items: list[str]

    def weights(self) -> dict[str, float]:
        return {item: float(w) for item, w in zip(self.items, self.sums.items, strict=True) if w}

    def together(self, items: Sequence[str]) -> np.ndarray:
        return self.sums.together(np.array([self.items.index(item) for item in items], np.int64))


Take = Callable[..., Taken]


class Stopped(Exception):
    """Raised where the noise would be drawn."""


@pytest.fixture(scope="module")
def taken() -> Iterator[Take]:
    """Runs `infrec distill` up to the noise."""
    found: list[Taken] = []

    def look(log, catalogue):
        sums = guaranteed_sums(log, catalogue)
        ids = (log.items if catalogue is None else catalogue).ids
        found.append(Taken(sums, ids.cast(pa.string()).to_pylist()))
        raise Stopped("enough.")

    guaranteed_sums = private.user_sums
    command = get_command(app)  # once: making it takes longer than all the rest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private, "user_sums", look)

        def take(log: Path, *words: str) -> Taken:
            out = log.with_name("never written")
            noise = ("--noise-multiplier", "1", "--delta", "1e-6", "--no-card")
            with suppress(Stopped):
                command(["distill", str(log), *noise, *words, "-o", str(out)], standalone_mode=False)
            assert not out.exists()
            return found.pop()

        yield take


def moved(one: Taken, other: Taken, items: Sequence[str]) -> dict[str, float]:
    """The norm by which each released sum differs; pairs of the given items, upper half, times √2."""
    weights = one.weights(), other.weights()
    difference = [
        weights[0].get(item, 0.0) - weights[1].get(item, 0.0) for item in {*weights[0], *weights[1]}
    ]
    pairs = np.triu(one.together(items) - other.together(items), 1) * math.sqrt(2)
    return {
        "activity": float(np.linalg.norm(one.sums.activity - other.sums.activity)),
        "items": float(np.linalg.norm(difference)),
        "together": float(np.linalg.norm(pairs)),
    }


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Row], list[Row], list[str], list[str]]:
    """Rows, the same without one user and in another order, the columns that are written, and options."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    optional = {name: draw(st.sampled_from([0.05, 0.5, 0.9])) for name in COLUMNS[2:] if draw(st.booleans())}
    rows = [ANCHOR]
    for user in draw(st.sets(st.sampled_from(USERS), min_size=2)):
        for item in rng.choice(ITEMS, rng.integers(1, 12)):  # some of them twice
            found = {
                name: str(rng.choice((ODD if rng.random() < share else USUAL)[name]))
                for name, share in optional.items()
            }
            rows.append({"user": user, "item": str(item), **found})
    gone = draw(st.sampled_from(sorted({each["user"] for each in rows} - {"0"})))
    rest = [each for each in rows if each["user"] != gone]
    words = ["--duplicates", "sum"] if draw(st.booleans()) else []
    words += ["--positive", "rating >= 4"] if "rating" in optional and draw(st.booleans()) else []
    words += ["--set-aside", "0.3"] if draw(st.booleans()) else []
    mixed = [[each[at] for at in rng.permutation(len(each))] for each in (rows, rest)]
    return mixed[0], mixed[1], ["user", "item", *optional], words


def written(path: Path, rows: Sequence[Row], columns: Sequence[str], parquet: bool) -> Path:
    if parquet:
        path = path.with_suffix(".parquet")
        pq.write_table(pa.table({name: [row[name] for row in rows] for name in columns}), path)
    else:
        lines = [",".join(row[name] for name in columns) for row in rows]
        path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return path


@settings(
    max_examples=80,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    case=logs(),
    parquet=st.booleans(),
    public=st.booleans(),
    most=st.sampled_from([2, 3, 2000]),
    data=st.data(),
)
def test_one_user_moves_every_sum_by_one_at_most(
    taken: Take,
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[list[Row], list[Row], list[str], list[str]],
    parquet: bool,
    public: bool,
    most: int,
    data: st.DataObject,
) -> None:
    rows, rest, columns, words = case
    folder = tmp_path_factory.getbasetemp()
    if public:
        (folder / "items.csv").write_text("\n".join(["item", *CATALOGUE]) + "\n", encoding="utf-8")
        words = [*words, "--catalogue", str(folder / "items.csv")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dp_sums, "MOST_ITEMS", most)
        more = taken(written(folder / "more.csv", rows, columns, parquet), *words)
        less = taken(written(folder / "less.csv", rest, columns, parquet), *words)
    # Pairs are asked of items that both logs have: what one user alone has is named with chance δ/2 at most.
    shared = sorted({*more.items} & {*less.items})
    some = data.draw(st.lists(st.sampled_from(shared), min_size=1, unique=True))
    for items in (shared, some):
        for name, norm in moved(more, less, items).items():
            assert norm <= 1 + 1e-9, name


def test_a_column_split_is_one_whatever_it_holds(taken: Take, tmp_path: Path) -> None:
    """One user alone has a part that is known: without them the others' rows do not suddenly all count."""
    rows = [{"user": user, "item": item, "split": "A"} for user in ("1", "2") for item in ("1", "2", "3")]
    one = {"user": "3", "item": "1", "split": "train"}
    found = taken(written(tmp_path / "more.csv", [*rows, one], ["user", "item", "split"], False))
    assert found.weights() == {"1": 1.0}
    with pytest.raises(DataError, match="split is none of train"):
        taken(written(tmp_path / "less.csv", rows, ["user", "item", "split"], False))


def test_a_user_without_readable_times_takes_nobody_along(taken: Take, tmp_path: Path) -> None:
    """One time in four cannot be read, or one in two: every row counts either way."""
    rows = [{"user": "1", "item": "1", "time": "5"}, {"user": "2", "item": "2", "time": "soon"}]
    more = [*rows, {"user": "3", "item": "1", "time": "6"}, {"user": "3", "item": "3", "time": "7"}]
    for log, weights in ((rows, {"1": 1.0, "2": 1.0}), (more, {"1": 1.7, "2": 1.0, "3": 0.7})):
        found = taken(written(tmp_path / "log.csv", log, ["user", "item", "time"], False))
        assert found.weights() == pytest.approx(weights, abs=0.01)


def test_ids_are_the_same_whatever_other_ids_are_beside_them(taken: Take, tmp_path: Path) -> None:
    """Floating-point ids: one user's item 1.5 does not rename everybody else's 1e15, nor is NaN an item."""
    names = []
    for last in (2e15, 1.5):
        table = pa.table({"user": [1.0, 2.0, 3.0, 4.0], "item": [1e15, -0.0, last, math.nan]})
        pq.write_table(table, tmp_path / "log.parquet")
        names.append({*taken(tmp_path / "log.parquet").items})
    assert names == [{"0", "1000000000000000", "2000000000000000"}, {"0", "1000000000000000", "1.5"}]
