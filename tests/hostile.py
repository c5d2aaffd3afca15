"""Small artifacts of every kind, and the way to damage one so that its hashes still fit its contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infrec import artifacts, models
from infrec.data import Interactions
from infrec.data.partition_writer import prepare
from infrec.data.sources import TableSource
from infrec.data.summary import Summary
from infrec.distillation.settings import DistillSettings
from infrec.models import infinite_ae, infinite_ae_plus
from infrec.models.gradient_model import GradientModel
from infrec.models.infinite_ae_plus import LADDERS

USERS, ITEMS = 12, 9


def log() -> Interactions:
    """Twelve users and nine items with titles; the first two items are everybody's."""
    rng = np.random.default_rng(7)
    matrix = (rng.random((USERS, ITEMS)) < 0.4) * 1.0
    matrix[:, :2] = 1.0
    titles = [f"Film {n} (1999)" for n in range(ITEMS)]
    return Interactions.from_csr(
        matrix, users=[f"u{n:02}" for n in range(USERS)], items=range(100, 100 + ITEMS), titles=titles
    )


def untrained(model: GradientModel) -> GradientModel:
    """A trained model as it is before its first step: no JAX is needed to make one."""
    data = log()
    sizes: Any = SimpleNamespace(users=16, items=16)
    start = model.program(data).start(sizes, data, np.random.default_rng(0))
    return model.with_parameters(data, start, 1)


def _fitted(name: str, **settings: Any) -> Callable[[Path], None]:
    return lambda place: models.create(name, **settings).fit(log()).save(place)


def _untrained(name: str, **settings: Any) -> Callable[[Path], None]:
    model: Any = models.create(name, epochs=1, **settings)
    return lambda place: untrained(model).save(place)


def _with_arrays(name: str, **settings: Any) -> Callable[[Path], None]:
    """A model that stores what it would rather solve again for so few users."""

    def save(place: Path) -> None:
        model = models.create(name, **settings).fit(log())
        before = infinite_ae._SOLVE_AGAIN, infinite_ae_plus._SOLVE_AGAIN
        infinite_ae._SOLVE_AGAIN = infinite_ae_plus._SOLVE_AGAIN = 0
        try:
            model.save(place)
        finally:
            infinite_ae._SOLVE_AGAIN, infinite_ae_plus._SOLVE_AGAIN = before

    return save


def _few(place: Path) -> None:
    model = models.create("infinite-ae", reg=5, solver="nystrom", centres=4).fit(log())
    model.with_only_centres().save(place)  # type: ignore[attr-defined]


ABOUT: dict[str, Any] = {
    "mode": "soft",
    "start": "noise",
    "reg": 5.0,
    "reg_grid": [1.0, 5.0],
    "seed": 42,
    "steps": 10,
    "best_step": 5,
    "seconds": 1.5,
    "criterion": "HR@100",
    "validation": {"HR@100": 50.0},
    "settings": DistillSettings.of("soft", users=USERS).to_dict(),
    "source": {"users": 1000, "items": ITEMS, "interactions": 9000, "fingerprint": "00ff"},
    "reading": {"positive": "rating >= 4"},
    "history": [],
    "set_aside": {"share": 0.1, "seed": 42},
    "guarantee": {"epsilon": 8.0, "delta": 1e-6, "noise_multiplier": 2.0, "public_items": True, "times": 1},
}


def _summary(kind: str, *, soft: bool, nobody: bool) -> Callable[[Path], None]:
    def save(place: Path) -> None:
        data = log()
        matrix = data.matrix.copy()
        if soft:
            matrix.data = np.random.default_rng(1).random(matrix.nnz).astype(np.float32) + 0.1
        if nobody:
            matrix = (matrix.toarray() * (np.arange(USERS) != 3)[:, None]).astype(np.float32)
            data = Interactions.from_csr(matrix, users=data.users.ids, items=data.items.ids)
        else:
            data = replace(data, matrix=matrix)
        Summary.of(data, about=ABOUT if kind == "summary" else {"seed": 1}, kind=kind).save(place)

    return save


def _dataset(*, split: bool) -> Callable[[Path], None]:
    def save(place: Path) -> None:
        rows = log().to_table()
        n = rows.num_rows
        columns = {"user": rows["user"], "item": rows["item"], "time": pa.array(range(n))}
        if split:
            columns["split"] = pa.array([("train", "val", "test")[at % 3] for at in range(n)])
            columns["weight"] = pa.array(1.0 + np.arange(n) % 4)
        prepare(TableSource(pa.table(columns), "rows"), place, partition=20)

    return save


BUILDERS: dict[str, Callable[[Path], None]] = {
    "infinite-ae": _fitted("infinite-ae", reg=5),
    "infinite-ae-alpha": _with_arrays("infinite-ae", reg=5),
    "infinite-ae-nystrom": _fitted("infinite-ae", reg=5, solver="nystrom", centres=4),
    "infinite-ae-centres": _few,
    "infinite-ae-plus": _fitted("infinite-ae-plus", **LADDERS.start),
    "infinite-ae-plus-alpha": _with_arrays("infinite-ae-plus", **LADDERS.start),
    "infinite-ae-plus-nystrom": _with_arrays(
        "infinite-ae-plus", solver="nystrom", centres=4, **LADDERS.start
    ),
    "ease": _fitted("ease", reg=10),
    "poprec": _fitted("poprec"),
    "bias-only": _fitted("bias-only"),
    "mf": _untrained("mf", latent=4),
    "neumf": _untrained("neumf", latent=4, layers=2),
    "lightgcn": _untrained("lightgcn", latent=4),
    "mvae": _untrained("mvae", latent=4, hidden=6),
    "summary": _summary("summary", soft=True, nobody=False),
    "summary-discrete": _summary("summary", soft=False, nobody=True),
    "sample": _summary("sample", soft=False, nobody=False),
    "dataset": _dataset(split=False),
    "dataset-split": _dataset(split=True),
}


# ---- damage that keeps the hashes right --------------------------------------------------------------------
def reseal(folder: Path, change: Callable[[dict[str, Any]], Any] | None = None) -> None:
    """Bring a manifest's lengths, hashes and seal up to what the files are now, after a change to it."""
    document = json.loads((folder / artifacts.MANIFEST).read_bytes())
    del document["seal"]
    for name in document["files"]:
        content = (folder / name).read_bytes()
        document["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    if change is not None:
        change(document)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    document["seal"] = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    (folder / artifacts.MANIFEST).write_text(json.dumps(document))  # ASCII: half a character is escaped


def claim_rows(file: Path, rows: int, told: int) -> None:
    """Let the last part of a Parquet file of so many rows claim others (each less than 64: one byte)."""
    content = bytearray(file.read_bytes())
    content[content.rindex(bytes([0x16, 2 * rows])) + 1] = 2 * told  # Thrift: a field of 64 bits, zigzag
    file.write_bytes(content)


def change_array(folder: Path, name: str, change: Callable[[np.ndarray], Any]) -> None:
    """Replace one array, or change it in place where `change` returns nothing; then reseal."""
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / artifacts.ARRAYS)
    arrays[name] = np.array(arrays[name])
    if (new := change(arrays[name])) is not None:
        arrays[name] = np.ascontiguousarray(new)
    save_file(arrays, folder / artifacts.ARRAYS)
    reseal(folder)


def change_table(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace one table; then reseal."""
    file = folder / f"{name}.parquet"
    with pq.ParquetFile(file) as opened:
        table = opened.read()
    pq.write_table(change(table), file)
    reseal(folder)
