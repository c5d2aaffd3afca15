"""One fit in 1, 2 and 4 processes of this machine: the same scores, what each reads, what memory each takes.

    python benchmarks/distributed.py [--users 40000 --items 17000 --interactions 4000000 --centres 2000]

Each number of processes runs `infrec fit --distributed` on the same prepared dataset (generated), with one
thread each. The estimate is compared with the peak less what the process held when it began to fit.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from infrec.data.generate import write_parquet
from infrec.data.prepare import prepare
from infrec.data.prepared import Prepared
from infrec.data.registry import find_sources
from infrec.kernels import memory
from infrec.models import InfiniteAE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=40_000)
    parser.add_argument("--items", type=int, default=17_000)
    parser.add_argument("--interactions", type=int, default=4_000_000)
    parser.add_argument("--centres", type=int, default=2_000)
    parser.add_argument("--reg", default="20", help="λ, or auto")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = {key: getattr(arguments, key) for key in ("users", "items", "interactions")}
        source, about = find_sources(write_parquet(folder / "log.parquet", **size, seed=1))
        prepare(source, folder / "log", None, about)
        dataset = Prepared.open(folder / "log")
        histories = next(iter(dataset.batches([0])))[:500]
        rows, first = [], None
        for count in arguments.processes:
            row = ran(folder / "log", folder / f"model-{count}", count, arguments)
            scores = InfiniteAE.load(folder / f"model-{count}").score(histories)
            first = scores if first is None else first
            row["largest difference of scores"] = float(np.abs(scores - first).max())
            row["estimate_mb"] = estimate(dataset, count, arguments) / 1e6
            rows.append(row)
        size["partitions"] = len(dataset.partitions)
    print(json.dumps({**size, "centres": arguments.centres, "reg": arguments.reg, "rows": rows}, indent=2))


def ran(data: Path, out: Path, count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        "fit",
        str(data),
        "--distributed",
        "--coordinator",
        f"127.0.0.1:{port}",
        "-o",
        str(out),
        "--json",
    ]
    words += ["--centres", str(arguments.centres), "--set", f"reg={arguments.reg}", "--processes", str(count)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    begin = time.perf_counter()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "infrec.cli", *words, "--index", str(index)],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]
    told = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"{count} processes: {told}")
    found = json.loads(told[0])
    each = found["about"]["processes"]
    return {
        "processes": count,
        "seconds": time.perf_counter() - begin,
        "fit_seconds": found["seconds"]["fit"],
        "load": os.getloadavg()[0],
        "rows_read": [one["rows"] for one in each],
        "bytes_read": [one["bytes"] for one in each],
        "peak_mb": [round(one["peak_rss_mb"]) for one in each],
        "taken_mb": [round(one["peak_rss_mb"] - one["start_rss_mb"]) for one in each],
    }


def estimate(dataset: Prepared, count: int, arguments: argparse.Namespace) -> int:
    most = max(dataset.partitions, key=lambda facts: facts["rows"])
    judges = min(20_000, len(dataset.users)) // count if arguments.reg == "auto" else 0
    return memory.streamed_fit(
        arguments.centres,
        len(dataset.items),
        processes=count,
        kept=judges,
        rows=most["users"],
        stored=most["rows"],
    )


if __name__ == "__main__":
    main()
