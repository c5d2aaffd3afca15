"""Directories whose hashes fit their contents and whose contents are wrong: refused in one sentence.

`tests/fuzz.py` looks for more of them by chance; here stands one of each kind that was found or thought of.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from infrec import artifacts, models
from infrec.data import Interactions
from infrec.data.partitioned import PartitionedLog
from infrec.data.summary import Summary
from infrec.distillation import update
from infrec.errors import ArtifactError, ConfigError, SolveError
from infrec.serve.loading import Source
from infrec.serve.loading import load as load_served
from tests import fuzz, hostile
from tests.hostile import change_array, change_table, reseal


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One artifact of every kind."""
    folder = tmp_path_factory.mktemp("honest")
    for name, build in hostile.BUILDERS.items():
        build(folder / name)
    return folder


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(honest / name, tmp_path / name))


def used(folder: Path) -> Any:
    """What a reader of this kind does with a directory."""
    kind = artifacts.kind_of(folder)
    if kind == "dataset":
        return Interactions.read(folder)
    return Summary.load(folder) if kind in ("summary", "sample") else models.load(folder)


@pytest.mark.parametrize("name", hostile.BUILDERS)
def test_the_honest_ones_are_read_and_resealing_alone_changes_nothing(
    name: str, copy: Callable[[str], Path]
) -> None:
    folder = copy(name)
    reseal(folder)
    assert used(folder) is not None


# ---- arrays ------------------------------------------------------------------------------------------------
WITH_ARRAYS = [
    ("infinite-ae-alpha", "alpha"),
    ("infinite-ae-nystrom", "centres.weights"),
    ("infinite-ae-centres", "popularity"),
    ("infinite-ae-plus-alpha", "weights"),
    ("ease", "weights"),
    ("bias-only", "items"),
    ("mf", "fold"),
    ("neumf", "layer2"),
    ("lightgcn", "spread"),
    ("mvae", "out.weight"),
]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("kind", "array"), WITH_ARRAYS)
def test_numbers_that_are_not_finite(
    kind: str, array: str, value: float, copy: Callable[[str], Path]
) -> None:
    folder = copy(kind)
    change_array(folder, array, lambda found: np.put(found, found.size // 2, value))
    with pytest.raises(ArtifactError, match=rf"holds NaN or infinity.*{array}"):
        used(folder)


@pytest.mark.parametrize(
    "change", [lambda a: a[..., :-1], lambda a: a.ravel()[None, None], lambda a: a.astype("f2")]
)
@pytest.mark.parametrize(("kind", "array"), WITH_ARRAYS)
def test_shapes_and_types_that_do_not_agree(
    kind: str, array: str, change: Callable[[np.ndarray], np.ndarray], copy: Callable[[str], Path]
) -> None:
    folder = copy(kind)
    change_array(folder, array, change)
    with pytest.raises(ArtifactError, match=r"is no sound model: its array '"):
        used(folder)


@pytest.mark.parametrize(
    ("array", "at", "value"),
    [
        ("centres.indices", 3, 9),  # items are 0 … 8
        ("centres.indices", 3, -1),
        ("centres.indices", 3, 2**30),
        ("centres.indices", 1, 0),  # not sorted
        ("centres.indptr", 1, 10_000),
        ("centres.indptr", 1, -5),
        ("centres.indptr", 4, 3),
        ("centres.indptr", 0, 1),
        ("centres.weights", 0, 0.0),
    ],
)
def test_centres_whose_indices_lead_out_of_the_matrix(
    array: str, at: int, value: float, copy: Callable[[str], Path]
) -> None:
    """Compiled code would read memory that is not the matrix's."""
    folder = copy("infinite-ae-nystrom")
    change_array(folder, array, lambda found: np.put(found, at, value))
    with pytest.raises(ArtifactError, match="is no sound model"):
        used(folder)


def test_centre_rows_that_are_nobodys(copy: Callable[[str], Path]) -> None:
    folder = copy("infinite-ae-plus-nystrom")
    change_array(folder, "centres", lambda found: np.put(found, 0, 2**40))
    with pytest.raises(ArtifactError, match=r"reaches from \d+ to 1099511627776, not"):
        used(folder)


def test_a_large_model_that_lacks_its_solution_is_not_solved_again(
    copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from infrec.models import infinite_ae

    monkeypatch.setattr(infinite_ae, "_SOLVE_AGAIN", 5)
    with pytest.raises(ArtifactError, match="lacks the array 'alpha'"):
        used(copy("infinite-ae"))


def test_finite_numbers_whose_products_are_not(copy: Callable[[str], Path]) -> None:
    folder = copy("lightgcn")
    for name in ("items", "spread"):
        change_array(folder, name, lambda found: np.full_like(found, 3e38))
    model = models.load(folder)
    with pytest.raises(SolveError, match="scores of lightgcn are NaN or infinite"):
        model.score(model.log.matrix)


def test_layers_that_nobody_stored_are_not_counted_to_the_end(copy: Callable[[str], Path]) -> None:
    for name in ("mvae", "neumf"):
        folder = copy(name)
        reseal(folder, lambda document: document["settings"].update(layers=10**12))
        with pytest.raises(ArtifactError, match="lacks the array"):
            used(folder)
    folder = copy("infinite-ae")
    reseal(folder, lambda document: document["settings"].update(depth=10**9))
    with pytest.raises(ArtifactError, match="depth is 1000000000; expected"):
        used(folder)


# ---- tables ------------------------------------------------------------------------------------------------
def put(column: str, at: int, value: Any, kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    """A table with one value replaced."""

    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[at] = value
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(values, kind or table.schema.field(column).type))

    return change


@pytest.mark.parametrize(
    ("name", "table", "change"),
    [
        ("ease", "interactions", put("row", 0, -1)),
        ("ease", "interactions", put("row", 0, 12)),
        ("ease", "interactions", put("column", 0, 2**31, pa.int64())),
        ("ease", "interactions", put("column", 0, None)),
        ("ease", "interactions", lambda t: t.append_column("weight", pa.array([float("nan")] * t.num_rows))),
        ("ease", "interactions", lambda t: t.append_column("weight", pa.array([1e300] * t.num_rows))),
        ("ease", "interactions", lambda t: t.append_column("weight", pa.array([-1.0] * t.num_rows))),
        ("ease", "interactions", lambda t: t.slice(0, 0)),
        ("ease", "interactions", lambda t: t.slice(1)),
        ("ease", "items", put("id", 0, 101)),  # stands twice
        ("ease", "items", put("id", 0, None)),
        ("ease", "items", lambda t: t.slice(1)),
        ("ease", "items", lambda t: t.set_column(1, "info.title", pa.array([b"x"] * t.num_rows))),
        ("ease", "users", lambda t: t.set_column(0, "id", pc.binary_length(t["id"]).cast(pa.float64()))),
        ("infinite-ae-nystrom", "centres", lambda t: t.slice(1)),
        ("summary", "interactions", put("item", 0, 5)),
        ("summary", "interactions", put("weight", 0, float("inf"))),
        ("summary", "interactions", put("weight", 0, -0.5)),
        ("summary", "interactions", put("weight", 0, 0.0)),
        ("summary", "interactions", lambda t: t.drop_columns(["weight"])),
        ("summary-discrete", "users", lambda t: t.slice(0, 5)),
        ("dataset", "part-00001", put("user", 0, 2**31 - 1)),
        ("dataset", "part-00001", put("user", 0, 2**31, pa.int64())),
        ("dataset", "part-00001", put("item", 0, -1)),
        ("dataset", "part-00001", put("time", 0, None)),
        ("dataset", "part-00001", lambda t: t.take(pa.array(range(t.num_rows)[::-1]))),
        ("dataset", "part-00001", lambda t: t.slice(1)),
        ("dataset", "users", put("interactions", 0, -3)),
        ("dataset", "users", put("interactions", 0, 10**15)),
        ("dataset-split", "part-00000", put("part", 0, 3)),
        ("dataset-split", "part-00000", put("weight", 0, float("nan"))),
    ],
)
def test_tables_that_cannot_be(
    name: str, table: str, change: Callable[[pa.Table], pa.Table], copy: Callable[[str], Path]
) -> None:
    folder = copy(name)
    change_table(folder, table, change)
    with pytest.raises(ArtifactError, match=r"is no sound (model|summary|dataset)"):
        used(folder)


@pytest.mark.parametrize(
    ("value", "shown"), [(-0.5, "-0.5"), (0.0, "0"), (float("nan"), "nan"), (float("inf"), "inf")]
)
def test_a_weight_that_is_none_is_named_by_its_row(
    value: float, shown: str, copy: Callable[[str], Path]
) -> None:
    folder = copy("summary")
    change_table(folder, "interactions", put("weight", 2, value))
    with pytest.raises(ArtifactError, match=f"row 3 of interactions has the weight {shown}, not a finite"):
        used(folder)


def test_a_table_of_more_rows_than_its_file_can_hold(copy: Callable[[str], Path]) -> None:
    """A billion equal values pack into a few bytes; nobody asks for the memory of what they unpack to."""
    folder = copy("ease")
    zeros = pa.array(np.zeros(1 << 24, np.int32))
    change_table(folder, "interactions", lambda table: pa.table({"row": zeros, "column": zeros}))
    assert (folder / "interactions.parquet").stat().st_size < 200_000
    with pytest.raises(ArtifactError, match=r"holds no table \(16,777,216 rows do not fit in its size\)"):
        used(folder)


def test_a_part_of_a_table_that_claims_more_rows_than_the_table(copy: Callable[[str], Path]) -> None:
    """Memory would be taken for what the part claims: 256 GiB after four changed bytes."""
    folder = copy("dataset")
    hostile.claim_rows(folder / "items.parquet", hostile.ITEMS, 63)
    hostile.reseal(folder)
    with pytest.raises(ArtifactError, match=r"its parts have 63 rows and the file 9"):
        used(folder)


def test_rows_that_no_partition_can_hold(copy: Callable[[str], Path]) -> None:
    folder = copy("dataset")
    change_table(folder, "users", put("interactions", 0, 2**31))

    def more(document: dict[str, Any]) -> None:
        document["interactions"] += 2**31
        document["partitions"][0]["rows"] += 2**31

    reseal(folder, more)
    with pytest.raises(ArtifactError, match=r"is no sound dataset"):
        PartitionedLog.open(folder)


# ---- manifests ---------------------------------------------------------------------------------------------
MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("ease", lambda d: d.update(about={"why": "\ud800"})),  # half a character
    ("ease", lambda d: d.update(model=["ease"])),
    ("ease", lambda d: d.update(model="\ud800")),
    ("ease", lambda d: d.update(kind=7)),
    ("ease", lambda d: d.update(files=[])),
    ("ease", lambda d: d["files"].update({"x\0y": {"sha256": "", "bytes": 0}})),
    ("ease", lambda d: d["files"].update({"x" * 300: {"sha256": "", "bytes": 0}})),
    ("ease", lambda d: d["files"].pop("items.parquet")),
    ("ease", lambda d: d.update(settings={"reg": float("inf")})),
    ("ease", lambda d: d.update(settings={"reg": "auto"})),
    ("ease", lambda d: d.update(settings={"reg": {}})),
    ("ease", lambda d: d.update(settings=None)),
    ("ease", lambda d: d.update(candidates=[{"settings": {}, "score": "high"}])),
    ("ease", lambda d: d.update(candidates=[{"settings": {}, "rungs": [1]}])),
    ("ease", lambda d: d.update(about=5)),
    ("ease", lambda d: d.update(users=11)),
    ("summary", lambda d: d.update(reg=float("nan"))),
    ("summary", lambda d: d.update(reg="large")),
    ("summary", lambda d: d.update(reg_grid=[1, -1])),
    ("summary", lambda d: d.update(seconds=1e400)),
    ("summary", lambda d: d.update(seconds=-1)),
    ("summary", lambda d: d.update(seconds=10**400)),
    ("summary", lambda d: d.update(represents=0)),
    ("summary", lambda d: d.update(validation="good")),
    ("summary", lambda d: d["source"].update(users=True)),
    ("summary", lambda d: d.update(seed=None)),
    ("summary", lambda d: d["set_aside"].update(share=2)),
    ("summary", lambda d: d["set_aside"].pop("seed")),
    ("summary", lambda d: d["guarantee"].update(delta="small")),
    ("summary", lambda d: d["guarantee"].pop("epsilon")),
    ("dataset", lambda d: d.update(partitions={})),
    ("dataset", lambda d: d["partitions"][1].update(first_user=0)),
    ("dataset", lambda d: d["partitions"][1].update(users=10**9)),
    ("dataset", lambda d: d["partitions"][1].update(file="../secret")),
    ("dataset", lambda d: d["partitions"][1].pop("rows")),
    ("dataset", lambda d: d.update(interactions=float("nan"))),
    ("dataset", lambda d: d.update(dropped=[])),
    ("dataset", lambda d: d.update(notes=5)),
]


@pytest.mark.parametrize(("name", "change"), MANIFESTS)
def test_manifests_that_cannot_be(
    name: str, change: Callable[[dict[str, Any]], Any], copy: Callable[[str], Path]
) -> None:
    folder = copy(name)
    reseal(folder, change)
    with pytest.raises(ArtifactError) as refused:
        load_served(Source("m", folder)) if name == "ease" else used(folder)
    sentence = str(refused.value)
    assert sentence.encode()  # can be printed
    assert sentence.endswith(".") and "\n" not in sentence


def test_a_manifest_nested_deeper_than_python_goes(copy: Callable[[str], Path]) -> None:
    folder = copy("ease")
    (folder / "manifest.json").write_text('{"kind": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(ArtifactError, match="no manifest in JSON"):
        used(folder)


def test_settings_of_a_summary_that_cannot_be_continued(copy: Callable[[str], Path]) -> None:
    for change in (
        lambda d: d["settings"].update(reg_grid="many"),
        lambda d: d.update(settings={"steps": "many", "reg": 1.0}),
        lambda d: d.pop("mode"),
    ):
        folder = copy("summary")
        reseal(folder, change)
        with pytest.raises(ConfigError, match="to continue"):
            update.settings(Summary.load(folder), {})
        shutil.rmtree(folder)


def test_numbers_that_json_does_not_know_are_written_as_none(tmp_path: Path) -> None:
    artifacts.write(
        tmp_path / "thing", kind="thing", manifest={"a": [float("nan")], "b": {"c": float("inf")}}
    )
    found = artifacts.read(tmp_path / "thing").manifest
    assert (found["a"], found["b"]) == ([None], {"c": None})


# ---- files -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["ease", "dataset", "summary", "sample"])
def test_a_missing_file_is_refused_before_anything_is_read(
    name: str, copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(file: Path) -> str:
        raise AssertionError(f"{file} was read")

    monkeypatch.setattr(artifacts, "_digest", unexpected)
    folder = copy(name)
    for file in sorted(folder.iterdir()):
        if file.name == artifacts.MANIFEST:
            continue
        content = file.read_bytes()
        file.unlink()
        for load in (used, lambda place: load_served(Source("m", place))):
            with pytest.raises(ArtifactError, match=f"lacks {file.name}, which its manifest lists"):
                load(folder)
        file.write_bytes(content[:-1])
        with pytest.raises(ArtifactError, match=f"it has {len(content) - 1:,} bytes, the manifest says"):
            used(folder)
        file.write_bytes(content)


@pytest.mark.parametrize("name", ["manifest.json", "items.parquet"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, copy: Callable[[str], Path]) -> None:
    folder = copy("ease")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ArtifactError, match="is damaged: it is no"):
        models.load(folder)


def test_headers_of_arrays_that_point_outside_the_file(copy: Callable[[str], Path]) -> None:
    folder = copy("ease")
    file = folder / "arrays.safetensors"
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for shape, offsets in (([2**31, 9], [0, 2**31 * 36]), ([9, 9], [-4, 320]), ([2**62, 2**62], [0, 324])):
        header["weights"] |= {"shape": shape, "data_offsets": offsets}
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
        reseal(folder)
        with pytest.raises(ArtifactError, match="holds no arrays"):
            used(folder)


def test_fuzzing_starts_another_process_before_one_has_taken_all_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "CHILD", 3)
    assert list(fuzz.findings("inputs", 1, 0, 7, 60, tmp_path)) == [(-1, "7")]
