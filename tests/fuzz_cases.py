"""The cases of `tests.fuzz`: how files are changed, and what is then asked of them."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from infrec import artifacts
from infrec.data import Interactions
from infrec.data.partition_writer import prepare
from infrec.data.partitioned import PartitionedLog
from infrec.data.read import sources
from infrec.data.summary import Summary
from infrec.errors import InfrecError
from infrec.serve.loading import Source, load
from tests import hostile

Run = Callable[[random.Random, Path], str]

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        2**63,
        10**30,
        0.5,
        -0.0,
        1e308,
        -1e308,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        "auto",
        "x" * 5000,
        "\ud800",
        "\0",
        "../x",
        [],
        {},
        [[]],
        [1, 2],
        {"a": 1},
        [None],
        "nystrom",
        "exact",
    ),
)
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**62, 1e30, -1e30, 3e38, 1e-45, np.nan, np.inf, -np.inf)
DTYPES = (*("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "?"),)
TOKENS = (
    *(
        b"\0",
        b"\xff",
        b"\xfe",
        b'"',
        b"'",
        b"\n",
        b"\r",
        b"\r\n",
        b"\t",
        b",",
        b";",
        b"|",
        b"::",
        b" ",
        b"\\",
    ),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"nan", b"inf", b"-1", b"1e400", b"9" * 25, b"\xed\xa0\x80"),
    *(b"user", b"item", b"rating", b"split", b"train", b"userId", b"NULL", b"\x1a", b"\x1f", b"\xe2\x80\xa8"),
)


# ---- changes -----------------------------------------------------------------------------------------------
def changed_bytes(content: bytes, chance: random.Random) -> bytes:
    """Some bytes flipped, put in, cut out, repeated or cut off."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        at = chance.randrange(len(data) + 1)
        how, length = chance.randrange(7), chance.choice((1, 1, 2, 4, 8, 64))
        if how == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            data[at : at + length] = chance.randbytes(min(length, len(data) - at))
        elif how == 2:
            data[at:at] = chance.choice(TOKENS)
        elif how == 3:
            del data[at : at + length]
        elif how == 4:
            data[at:at] = data[at : at + length] * chance.choice((1, 2, 50))
        elif how == 5 and chance.random() < 0.2:
            del data[at:]
        else:
            data[at : at + length] = chance.choice((b"\0", b"\xff", b"\x80", b"\x7f")) * length
    return bytes(data)


def changed_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """Another type, another shape, or other numbers in it."""
    how = chance.randrange(8)
    array = np.array(array)
    with np.errstate(all="ignore"):
        if how == 0:
            return array.astype(chance.choice(DTYPES))
        if how == 1:
            return array.reshape(-1)[: chance.randrange(array.size + 1)]
        if how == 2:
            return array.T
        if how == 3:
            return np.concatenate([array, array[:1]])
        if how == 4:
            return array[..., None]
        flat = array.reshape(-1)
        for _ in range(chance.choice((1, 1, 3, 100)) if flat.size else 0):
            number = np.array([chance.choice(NUMBERS)]).astype(flat.dtype)
            flat[chance.randrange(flat.size)] = number[0]
        if how == 5:
            flat[:] = flat[::-1].copy()
    return array


def changed_arrays(file: Path, chance: random.Random) -> None:
    arrays = load_file(file)
    name = chance.choice(sorted(arrays))
    how = chance.randrange(8)
    if how == 0:
        del arrays[name]
    elif how == 1:
        other = chance.choice(sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    else:
        arrays[name] = changed_array(arrays[name], chance)
    save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, file)


def changed_header(file: Path, chance: random.Random) -> None:
    """A safetensors header whose types, shapes and places are not those of the data."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    facts = header[chance.choice([name for name in header if name != "__metadata__"])]
    how = chance.randrange(4)
    if how == 0:
        facts["dtype"] = chance.choice(("F64", "F16", "BF16", "I8", "U64", "BOOL", "F8_E4M3", "C64", "X"))
    elif how == 1:
        facts["shape"] = [chance.choice((0, 1, 2, 3, 2**31, 2**62)) for _ in range(chance.randrange(4))]
    elif how == 2:
        facts["data_offsets"][chance.randrange(2)] = chance.choice((0, 1, 7, 2**31, 2**63, -1, len(content)))
    else:
        header["__metadata__"] = chance.choice((None, 1, {"a": "b"}, {"a": 1}))
    text = json.dumps(header).encode()
    told = chance.choice((len(text), len(text), len(text), 0, 2**40, len(content)))
    file.write_bytes(told.to_bytes(8, "little") + text + content[8 + length :])


def changed_table(table: pa.Table, chance: random.Random) -> pa.Table:
    """A column gone, of another name or type, or with other values; rows gone, repeated or in disorder."""
    how, at = chance.randrange(10), chance.randrange(table.num_columns)
    name, column, n = table.column_names[at], table.column(at), table.num_rows
    if how == 0:
        return table.drop_columns([name])
    if how == 1:
        return table.rename_columns(
            [chance.choice(("user", "id", "weight", "x")) if c == name else c for c in table.column_names]
        )
    if how == 2:
        return table.slice(0, chance.randrange(n + 1))
    if how == 3:
        return pa.concat_tables([table, table.slice(chance.randrange(n))]) if n else table
    if how == 4:
        return table.take(pa.array([chance.randrange(n) for _ in range(n)], pa.int64()))
    if how == 5:
        kinds = (
            pa.string(),
            pa.int8(),
            pa.int32(),
            pa.int64(),
            pa.uint64(),
            pa.float64(),
            pa.binary(),
            pa.large_string(),
        )
        kind = chance.choice(kinds)
        try:
            return table.set_column(at, name, column.cast(kind))
        except pa.ArrowException:
            return table.set_column(at, name, pa.nulls(n, kind))
    values = column.to_pylist()
    for _ in range(chance.choice((1, 1, 3, n)) if n else 0):
        numbers: list[Any] = (
            [*NUMBERS, None] if pa.types.is_floating(column.type) else [0, -1, n, 2**31 - 1, 127, None]
        )
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            values[chance.randrange(n)] = chance.choice(numbers)
        else:
            values[chance.randrange(n)] = chance.choice(
                (None, values[0], type(values[0])() if values[0] is not None else None)
            )
    kind = column.type
    if pa.types.is_integer(kind) and chance.random() < 0.3:
        kind, values[chance.randrange(n) if n else 0 :][:1] = pa.int64(), [2**31]
    try:
        return table.set_column(at, name, pa.array(values, kind))
    except (pa.ArrowException, OverflowError, ValueError):
        return table


def changed_manifest(document: dict[str, Any], chance: random.Random) -> None:
    """One entry, anywhere in it, gone or another value."""
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if place is document:
            keys = [key for key in keys if key not in ("format", "seal", "format_version", "versions")]
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.7:
            place = place[key]
            continue
        if chance.random() < 0.25:
            del place[key]
        else:
            place[key] = chance.choice(VALUES)
        return


# ---- artifacts ---------------------------------------------------------------------------------------------
def honest_artifacts(folder: Path) -> dict[str, list[Path]]:
    """The files of every kind of artifact, each used once as it is."""
    folder.mkdir()
    for name, build in sorted(hostile.BUILDERS.items()):
        build(folder / name)
        if wrong := used(folder / name):
            raise RuntimeError(f"{name}: {wrong}")
    return {name: sorted((folder / name).iterdir()) for name in sorted(hostile.BUILDERS)}


def byte_cases(folder: Path) -> Run:
    """One file of an artifact with other bytes, where it lies: many cases in little time."""
    contents = {
        file: file.read_bytes() for files in honest_artifacts(folder).values() for file in sorted(files)
    }
    files = list(contents)

    def run(chance: random.Random, work: Path) -> str:
        file = chance.choice(files)
        manifest = file.parent / artifacts.MANIFEST
        try:
            file.write_bytes(changed_bytes(contents[file], chance))
            if file != manifest and chance.random() < 0.5:
                hostile.reseal(file.parent)
            return used(file.parent)
        finally:
            for each in {file, manifest}:
                each.write_bytes(contents[each])

    return run


def artifact_cases(folder: Path) -> Run:
    """Whatever may be wrong in an artifact's files, once or several times."""
    files = honest_artifacts(folder)
    names = sorted(files)

    def run(chance: random.Random, work: Path) -> str:
        name = chance.choice(names)
        target = work / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for file in files[name]:
            shutil.copyfile(file, target / file.name)
        damage(target, chance)
        try:
            return used(target)
        finally:
            shutil.rmtree(target)

    return run


def damage(target: Path, chance: random.Random) -> None:
    """Change an artifact, once or several times."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        try:
            damage_once(target, chance)
        except (OSError, ValueError, LookupError, TypeError, pa.ArrowException, SafetensorError):
            return  # what was damaged before cannot be changed any more


def damage_once(target: Path, chance: random.Random) -> None:
    """Change one file of an artifact; mostly its hashes are then brought up to date."""
    file = chance.choice(sorted(target.iterdir()))
    how = chance.random()
    if how < 0.3 or (how < 0.5 and file.name == artifacts.MANIFEST):
        file.write_bytes(changed_bytes(file.read_bytes(), chance))
        return
    if how < 0.31:
        file.unlink()
        return
    if file.name == artifacts.MANIFEST:
        hostile.reseal(target, lambda document: changed_manifest(document, chance))
        return
    if how < 0.5:
        file.write_bytes(changed_bytes(file.read_bytes(), chance))
    elif file.name == artifacts.ARRAYS:
        (changed_header if how < 0.6 else changed_arrays)(file, chance)
    else:
        with pq.ParquetFile(file) as opened:
            table = opened.read()
        pq.write_table(changed_table(table, chance), file)
    hostile.reseal(target)


def used(target: Path) -> str:
    """Load an artifact as its readers do and ask it for something; what is wrong with the answer."""
    kind = artifacts.kind_of(target)
    if kind == "dataset":
        data = PartitionedLog.open(target)
        for batch in data.batches():
            batch.sum()
        data.rows([0, -1])
        return sound(Interactions.from_fields(data.fields()))
    if kind in ("summary", "sample"):
        summary = Summary.load(target)
        from infrec.distillation import update

        if kind == "summary":
            try:
                update.settings(summary, {})
                update.Past.of(summary, summary.items)
            except InfrecError:
                pass
        if wrong := sound(summary):
            return wrong
    served = load(Source("m", target))
    model = served.model
    scores = model.score(model.log.matrix[:3], users=model.log.users.ids[:3])
    if not np.isfinite(scores).all():
        return "its scores are not finite"
    top = model.recommend(k=3)
    model.similar(model.log.items.ids[0].as_py())
    repr(model)
    return "" if np.isfinite(top["score"]).all() else "a recommendation is not finite"


def sound(log: Interactions) -> str:
    """What is wrong with a log."""
    for matrix in (log.matrix, *(log.parts or {}).values()):
        matrix.check_format(full_check=True)
        if not np.isfinite(matrix.data).all() or (matrix.data <= 0).any():
            return "a weight is not finite, or 0 or less"
    for vocabulary in (log.users, log.items):
        if vocabulary.ids.null_count or len(vocabulary.ids.unique()) < len(vocabulary):
            return "an id is missing or stands twice"
        vocabulary.ids.validate(full=True)
    log.to_table()
    return ""


# ---- input files -------------------------------------------------------------------------------------------
def honest_inputs() -> dict[str, bytes]:
    """The same small log in every format."""
    rng = np.random.default_rng(3)
    rows = [
        (int(u), int(i), int(r), 978300000 + n) for n, (u, i, r) in enumerate(rng.integers(1, 9, (60, 3)))
    ]
    lines = [",".join(map(str, row)) for row in rows]
    header = "userId,movieId,rating,timestamp"
    csv = "\n".join([header, *lines]).encode()
    table = pa.table({n: [r[k] for r in rows] for k, n in enumerate(("user", "item", "rating", "time"))})
    parquet, packed = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml-1m/ratings.dat", "\n".join(line.replace(",", "::") for line in lines))
        archive.writestr("ml-1m/movies.dat", "\n".join(f"{n}::Film {n} (1990)::Drama|War" for n in range(9)))
    quoted = "\n".join([header, *(f'"u, {r[0]}","i ""{r[1]}""",{r[2]},{r[3]}' for r in rows)])
    return {
        "a.csv": csv,
        "quoted.csv": quoted.encode(),
        "plain.csv": "\n".join(lines).encode(),
        "text.csv": "\n".join(f"ann{r[0]},tea{r[1]}" for r in rows).encode(),
        "split.csv": "\n".join(
            ["user,item,split", *(f"{r[0]},{r[1]},{('train', 'test')[r[2] % 2]}" for r in rows)]
        ).encode(),
        "a.tsv": csv.replace(b",", b"\t"),
        "a.dat": "\n".join(line.replace(",", "::") for line in lines).encode(),
        "blanks.txt": "\n".join(line.replace(",", "  ") for line in lines).encode(),
        "a.inter": csv.replace(
            header.encode(), b"user_id:token\titem_id:token\trating:float\ttimestamp:float"
        ).replace(b",", b"\t"),
        "a.csv.gz": gzip.compress(csv, mtime=0),
        "wide.csv": csv.decode().encode("utf-16"),
        "a.parquet": parquet.getvalue(),
        "a.zip": packed.getvalue(),
        "a.jsonl": "\n".join(json.dumps({"user": r[0], "item": r[1]}) for r in rows).encode(),
        "combined_data_1.txt": "\n".join(["1:", *(f"{r[0]},{r[2]},2005-09-06" for r in rows)]).encode(),
    }


OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"duplicates": "sum"}, {"strict": True}, {"positive": "rating >= 4"}),
    *({"user": 0, "item": 1}, {"user": "item", "item": "user"}, {"weight": "rating"}),
)


def input_cases(folder: Path) -> Run:
    """Every format, each read once as it is."""
    folder.mkdir()
    honest = honest_inputs()
    for name, content in honest.items():
        (folder / name).write_bytes(content)
        try:
            wrong = sound(Interactions.read(folder / name))
        except InfrecError:
            wrong = "" if name in ("wide.csv", "text.csv", "a.jsonl") else "it is refused"
        if wrong:
            raise RuntimeError(f"{name}: {wrong}")
    names = sorted(honest)

    def run(chance: random.Random, work: Path) -> str:
        name = chance.choice(names)
        content = honest[name]
        if name.endswith(".gz") and chance.random() < 0.5:
            content = gzip.compress(changed_bytes(gzip.decompress(content), chance), mtime=0)
        elif chance.random() < 0.05:
            content = chance.choice(TOKENS) * chance.choice((0, 1, 1, 2, 3, 1000))
        elif chance.random() < 0.05:
            content = content + honest[chance.choice(names)]
        else:
            content = changed_bytes(content, chance)
        file = work / (name if chance.random() < 0.9 else f"x{Path(chance.choice(names)).suffix}")
        file.write_bytes(content)
        try:
            if chance.random() < 0.05:
                prepare(*_first(sources(file)), work / "prepared")
                return sound(Interactions.read(work / "prepared"))
            return sound(Interactions.read(file, **chance.choice(OPTIONS)))
        finally:
            file.unlink()

    return run


def _first(found: tuple[Any, Any]) -> tuple[Any]:
    return found[:1]


# ---- checkpoints -------------------------------------------------------------------------------------------
def checkpoint_cases(folder: Path) -> Run:
    """A training and a distillation that have saved where they were, and noisy sums over users."""
    from infrec.distillation import dp_sums, private
    from infrec.distillation.run import Run as DistillationRun
    from infrec.distillation.settings import DistillSettings
    from infrec.distillation.validation import Verdict
    from infrec.models.mf import MF

    log = hostile.log()
    folder.mkdir()
    training = MF(latent=4, epochs=2).training(log, checkpoint=folder / "training")
    training.run()
    config = DistillSettings.of("soft", users=4, steps=2, validate_every=1, targets="own").resolved(
        n_users=log.n_users, n_items=log.n_items, interactions=log.n_interactions
    )

    def judge(x_hat: Any, grid: Any) -> Verdict:
        return Verdict(1.0, 1.0, {config.criterion: 1.0})

    distillation = DistillationRun(log.matrix, config, judge, directory=folder / "distillation").go()

    sums = private.user_sums(log, log.items)
    promise = (sums, private.LEAST_NOISE, 1e-4, True)
    with np.errstate(all="ignore"):
        private._released(*promise, folder / "private", False)
    dp_sums.STEPS = 2

    def resumed(place: Path, chance: random.Random) -> str:
        released = private._released(*promise, place, True)
        arrays = (released.activity, released.weights, released.together)
        if not all(np.isfinite(array).all() for array in arrays):
            return "a noisy sum is not finite"
        if chance.random() < 0.05:  # compiled anew each time
            rows = dp_sums.Population.fit(released, seed=1).draw(5, seed=1)
            return "" if np.isfinite(rows.data).all() else "an invented user is not finite"
        return ""

    def run(chance: random.Random, work: Path) -> str:
        name = chance.choice(("training", "distillation", "sums"))
        shutil.rmtree(work / name, ignore_errors=True)
        if name == "sums":
            shutil.copytree(folder / "private", work / name)
            damage(work / name / "sums", chance)
            return resumed(work / name, chance) if artifacts.is_artifact(work / name / "sums") else ""
        shutil.copytree(folder / name / "checkpoint", work / name)
        damage(work / name, chance)
        found = artifacts.read(work / name)
        with found.understood():
            (training if name == "training" else distillation).restore(found)
        track = distillation.loop.track
        numbers = [training.loss, training.epoch] if name == "training" else [track.best, track.step]
        return "" if all(map(math.isfinite, numbers)) else "a number is not finite"

    return run


GROUPS: dict[str, Callable[[Path], Run]] = {
    "artifacts": artifact_cases,
    "bytes": byte_cases,
    "inputs": input_cases,
    "checkpoints": checkpoint_cases,
}
