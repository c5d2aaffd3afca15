"""The memory that is asked for before a job, beside the peak that the job really has.

    python benchmarks/memory.py [--json] [--only NAME …]

Each job runs in a process of its own, which says how much it held before the job began and at its peak
(VmHWM; on an accelerator what JAX's allocator counted). An estimate should be within 20 % of the difference.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infrec import machine
from infrec.kernels import devices, kernel_of, nystrom, ridge_gpu

USERS, ITEMS = 9_000, 4_000
CENTRES = 3_000


def exact_cpu() -> tuple[int, Callable[[], Any]]:
    from infrec.models import InfiniteAE

    split = made(USERS)
    model = InfiniteAE(solver="exact")
    return devices.exact_fit(USERS, ITEMS), lambda: model.fit(split.train, validation=split.val)


def nystrom_cpu() -> tuple[int, Callable[[], Any]]:
    from infrec.models import InfiniteAE

    split = made(20_000)
    model = InfiniteAE(solver="nystrom", centres=CENTRES)
    kept = min(20_000, split.train.n_users)
    needed = devices.nystrom_fit(CENTRES, ITEMS, kept=kept)
    return needed, lambda: model.fit(split.train, validation=split.val)


def streamed_cpu() -> tuple[int, Callable[[], Any]]:
    """From partitions, six λ; several processes are in benchmarks/distributed.py."""
    from infrec.data.datasets import find_sources
    from infrec.data.partition_writer import prepare
    from infrec.data.partitioned import PartitionedLog
    from infrec.data.synthetic import write_log
    from infrec.models import InfiniteAE

    folder = Path(tempfile.mkdtemp())
    source = write_log(folder / "log.parquet", users=20_000, items=ITEMS, interactions=2_000_000)
    rows, items = find_sources(source)
    prepare(rows, folder / "log", None, items)
    dataset = PartitionedLog.open(folder / "log")
    most = max(dataset.partitions, key=lambda facts: facts["rows"])
    size = {"kept": 20_000, "rows": int(most["users"]), "stored": int(most["rows"])}

    def job() -> None:
        InfiniteAE(centres=CENTRES).fit_prepared(dataset)
        shutil.rmtree(folder)

    return devices.nystrom_fit(CENTRES, len(dataset.items), **size), job


def distillation_cpu() -> tuple[int, Callable[[], Any]]:
    import jax.numpy as jnp

    from infrec.distillation import DistillSettings, distill
    from infrec.distillation.run import memory_needed

    jnp.zeros(3).block_until_ready()
    split = made(4_000)
    settings = DistillSettings.of(users=500, batch=1024, steps=3, validate_every=3)
    needed = memory_needed(split.train.n_users, split.train.n_items, settings)
    return needed, lambda: distill(split, settings=settings)


def exact_accelerator() -> tuple[int, Callable[[], Any]]:
    split = made(40_000)
    rows = split.train.matrix

    def job() -> None:
        solver = devices.kernel_ridge(rows, kernel_of(1), "float32")
        solver.factorise(5.0)
        solver.solve()

    return ridge_gpu.TiledRidge.needs(*rows.shape), job


def nystrom_accelerator() -> tuple[int, Callable[[], Any]]:
    from infrec.models import InfiniteAE

    split = made(40_000)
    model = InfiniteAE(solver="nystrom", centres=8_000, reg=5)
    needed = devices.nystrom_on_device(8_000, ITEMS, block=nystrom.block_size(8_000))
    return needed, lambda: model.fit(split.train)


def ingest_parquet() -> tuple[int, Callable[[], Any]]:
    return _ingest(text=False)


def ingest_csv() -> tuple[int, Callable[[], Any]]:
    return _ingest(text=True)


def _ingest(*, text: bool) -> tuple[int, Callable[[], Any]]:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    from infrec.data import partition_writer
    from infrec.data.datasets import find_sources
    from infrec.data.synthetic import write_log

    folder = Path(tempfile.mkdtemp())
    source = write_log(folder / "log.parquet", users=80_000, items=ITEMS, interactions=16_000_000)
    if text:
        file, source = pq.ParquetFile(source), folder / "log.csv"
        with pacsv.CSVWriter(source, file.schema_arrow) as writer:
            for batch in file.iter_batches(batch_size=1 << 18):
                writer.write_batch(batch)
    rows, items = find_sources(source)
    needed = partition_writer.memory_needed(text=text, ids=80_000 + ITEMS)

    def job() -> None:
        partition_writer.prepare(rows, folder / "out", None, items)
        shutil.rmtree(folder)

    return needed, job


def evaluation() -> tuple[int, Callable[[], Any]]:
    from infrec.evaluation.evaluate import evaluate, memory_needed
    from infrec.models import PopRec

    split = made(400_000, per_user=12)
    model = PopRec().fit(split.train)
    needed = memory_needed(split.train.n_users, ITEMS, split.test.n_interactions)
    return needed, lambda: evaluate(model, split)


JOBS = {
    job.__name__: job
    for job in (
        exact_cpu,
        nystrom_cpu,
        streamed_cpu,
        distillation_cpu,
        ingest_parquet,
        ingest_csv,
        evaluation,
        exact_accelerator,
        nystrom_accelerator,
    )
}


def made(users: int, per_user: int = 100) -> Any:
    from infrec.data.synthetic import generate
    from infrec.splits import holdout

    return holdout(generate(users, ITEMS, per_user * users, seed=1))


def child(name: str) -> None:
    """Run one job here and print what it asked for and what it took."""
    needed, job = JOBS[name]()
    there = name.endswith("accelerator")
    if not there:
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = 0 if there else status("VmRSS")
    job()
    if there:
        import jax

        peak = jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    else:
        peak = status("VmHWM")
    print(json.dumps({"job": name, "estimate": needed, "measured": peak - before, "before": before}))


def status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not tell {key}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--only", nargs="*", choices=JOBS, help="these jobs")
    parser.add_argument("--child", choices=JOBS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    here = [name for name in JOBS if not name.endswith("accelerator") or devices.device() is not None]
    found = []
    for name in arguments.only or here:
        words = [sys.executable, __file__, "--child", name]
        ran = subprocess.run(words, check=True, capture_output=True, text=True)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'job':<22}{'estimate':>12}{'measured':>12}{'ratio':>8}")
    for row in found:
        asked, took = (machine.memory_size(row[key]) for key in ("estimate", "measured"))
        print(f"{row['job']:<22}{asked:>12}{took:>12}{row['estimate'] / row['measured']:>8.2f}")


if __name__ == "__main__":
    main()
