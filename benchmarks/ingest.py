"""How long `infrec datasets prepare` takes, and how much memory; polars doing the same grouping beside it.

    python benchmarks/ingest.py [--full] [--shuffle] [--peers PYTHON] [--json]

The source is a generated log of Netflix's shape (a fiftieth of it unless --full), as Parquet and as CSV,
sorted by user as the generator makes it, or in random order (--shuffle). Each run is a process of its own;
its peak memory is what the kernel says. Polars runs where the peers are installed (make bench-peers).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from infrec.data.parsing import whole
from infrec.data.synthetic import write_log
from infrec.data.vocabulary import from_numpy, to_numpy
from infrec.machine import cores

NETFLIX = {"users": 476_000, "items": 17_000, "interactions": 100_000_000}
PEERS = Path(__file__).parent / "peers" / "ingest.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="100 million interactions")
    parser.add_argument("--shuffle", action="store_true", help="rows in random order")
    parser.add_argument("--source", type=Path, help="a Parquet file to use instead of a generated one")
    parser.add_argument("--peers", default=".venv-peers/bin/python", help="a Python that has polars")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = arguments.source or generated(folder, arguments.full)
        if arguments.shuffle:
            source = shuffled(source, folder / "shuffled.parquet")
        runs = [measured("parquet", source, folder, arguments.peers)]
        as_csv(source, folder / "log.csv")
        runs.append(measured("csv", folder / "log.csv", folder, arguments.peers))
    result = {"cores": cores(), "load": os.getloadavg()[0], "shuffled": arguments.shuffle, "runs": runs}
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for run in runs:
        print(f"{run['format']}, {run['bytes'] / 1e6:,.0f} MB, {run['interactions']:,} interactions")
        for name in ("infrec", "polars"):
            if run[name] is not None:
                print(f"  {name:<8}{run[name]['seconds']:8.1f} s {run[name]['peak_mb']:9,.0f} MB peak")


def generated(folder: Path, full: bool) -> Path:
    share = 1 if full else 50
    size: dict[str, Any] = {
        name: value // (share if name != "items" else 1) for name, value in NETFLIX.items()
    }
    return write_log(folder / "log.parquet", **size, seed=42)


def shuffled(source: Path, path: Path) -> Path:
    table = pq.ParquetFile(source).read()
    order = np.random.default_rng(0).permutation(table.num_rows)
    columns = [from_numpy(to_numpy(whole(column))[order]) for column in table.columns]
    pq.write_table(pa.Table.from_arrays(columns, names=table.column_names), path, row_group_size=1 << 20)
    return path


def as_csv(source: Path, path: Path) -> None:
    file = pq.ParquetFile(source)
    with pacsv.CSVWriter(path, file.schema_arrow) as writer:
        for batch in file.iter_batches(batch_size=1 << 20):
            writer.write_batch(batch)


def measured(form: str, source: Path, folder: Path, peers: str) -> dict[str, Any]:
    out = folder / "prepared"
    words = [sys.executable, "-m", "infrec", "datasets", "prepare", str(source), "-o", str(out), "--json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    shutil.rmtree(out)
    polars = None
    if shutil.which(peers):
        ran = subprocess.run([peers, str(PEERS), str(source), str(folder)], capture_output=True, text=True)
        polars = json.loads(ran.stdout) if ran.returncode == 0 else None
        if polars is None:
            print(f"polars ended with {ran.returncode}: {ran.stderr[-300:]}", file=sys.stderr)
        elif polars["interactions"] != found["interactions"]:
            raise SystemExit(
                f"polars found {polars['interactions']} interactions, infrec {found['interactions']}"
            )
    ours = {"seconds": found["seconds"], "peak_mb": found["peak_rss_mb"], "bytes": found["bytes"]}
    return {
        "format": form,
        "bytes": source.stat().st_size,
        "interactions": found["interactions"],
        "infrec": ours,
        "polars": polars,
    }


if __name__ == "__main__":
    main()
