"""One fit in 1, 2 and 4 processes of this machine: the same scores, what each reads, what memory each takes.

    python benchmarks/distributed.py [--users 40000 --items 17000 --interactions 4000000 --centres 2000]
    python benchmarks/distributed.py --speed [--users 100000 --items 4000 --interactions 10000000 …]

Each number of processes runs `infrec fit --distributed` on the same prepared dataset (generated), with one
thread each. The estimate is compared with the peak less what the process held when it began to fit.

With --speed: a fit's pass and a distillation's step in one process that is pinned to one core, and in two
that are pinned to a core each, one thread each, in turns. Beside them two jobs of one process each at the
same time, which share nothing but the machine: what they lose, no division of the work can win back.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from infrec.cli import distributed
from infrec.cli.launchers import Place
from infrec.data import Interactions
from infrec.data.datasets import find_sources
from infrec.data.partition_writer import prepare
from infrec.data.partitioned import PartitionedLog
from infrec.data.synthetic import write_log
from infrec.kernels import devices
from infrec.kernels.collectives import Team
from infrec.models import InfiniteAE
from infrec.splits import holdout

REG = 20.0

SIZES = {  # by default, and with --speed
    "users": (40_000, 100_000),
    "items": (17_000, 4_000),
    "interactions": (4_000_000, 10_000_000),
    "centres": (2_000, 1_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speed", action="store_true", help="one core against two, see above")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=int, help=" or ".join(f"{size:,}" for size in SIZES[name]))
    parser.add_argument("--reg", default="20", help="λ, or auto")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--distilled", type=int, default=200, help="synthetic users (--speed)")
    parser.add_argument("--batch", type=int, default=4096, help="users of a distillation's step (--speed)")
    parser.add_argument("--steps", type=int, default=10, help="of a distillation (--speed)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (--speed)")
    arguments = parser.parse_args()
    for name, sizes in SIZES.items():
        setattr(arguments, name, getattr(arguments, name) or sizes[arguments.speed])
    if arguments.speed:
        speed(arguments)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size, dataset = generated(folder, arguments)
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


def generated(folder: Path, arguments: argparse.Namespace) -> tuple[dict[str, int], PartitionedLog]:
    size = {key: getattr(arguments, key) for key in ("users", "items", "interactions")}
    source, about = find_sources(write_log(folder / "log.parquet", **size, seed=1))
    prepare(source, folder / "log", None, about)
    return size, PartitionedLog.open(folder / "log")


def ran(data: Path, out: Path, count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    words = [
        "fit",
        str(data),
        "--distributed",
        "--coordinator",
        meeting_point(),
        "-o",
        str(out),
        "--json",
    ]
    words += ["--centres", str(arguments.centres), "--set", f"reg={arguments.reg}", "--processes", str(count)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    begin = time.perf_counter()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "infrec", *words, "--index", str(index)],
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


def estimate(dataset: PartitionedLog, count: int, arguments: argparse.Namespace) -> int:
    most = max(dataset.partitions, key=lambda facts: facts["rows"])
    judges = min(20_000, len(dataset.users)) // count if arguments.reg == "auto" else 0
    return devices.nystrom_fit(
        arguments.centres,
        len(dataset.items),
        processes=count,
        kept=judges,
        rows=most["users"],
        stored=most["rows"],
    )


def meeting_point() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


# ---- speed -----------------------------------------------------------------------------------------------
def speed(arguments: argparse.Namespace) -> None:
    """One core, two cores, and two jobs side by side, for a fit's pass and a distillation's step."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two cores are needed; this process may use one")
    ways = {"one process": [(1, cores[:1])], "two processes": [(2, cores)]}
    ways["two jobs of one process"] = [(1, [core]) for core in cores]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size, dataset = generated(folder, arguments)
        size["partitions"] = len(dataset.partitions)
        found: dict[str, dict[str, list[float]]] = {job: {way: [] for way in ways} for job in JOBS}
        loads = []
        for _ in range(arguments.repeat):
            for job in JOBS:
                for way, teams in ways.items():
                    loads.append(os.getloadavg()[0])
                    found[job][way].append(at_once(job, folder / "log", teams, arguments))
    rows = []
    for job, by_way in found.items():
        one, two, beside = (float(np.median(by_way[way])) for way in ways)
        rows.append(
            {
                "job": job,
                "seconds": by_way,
                "speed-up": one / two,
                "of two jobs side by side": 2 * one / beside,
            }
        )
    asked = {key: getattr(arguments, key) for key in ("centres", "distilled", "batch", "steps")}
    print(json.dumps({**size, **asked, "cores": cores, "loads": loads, "rows": rows}, indent=2))


def at_once(job: str, data: Path, teams: list[tuple[int, list[int]]], arguments: argparse.Namespace) -> float:
    """Seconds of the slowest of these jobs, each of so many processes on these cores."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    env = {**os.environ, **one, "JAX_PLATFORMS": "cpu"}
    asked = {key: getattr(arguments, key) for key in ("centres", "distilled", "batch", "steps")}
    started = []
    for count, cores in teams:
        meet = meeting_point()
        for index, core in enumerate(cores):
            words = [job, str(data), str(index), str(count), meet, str(core), json.dumps(asked)]
            command = [sys.executable, __file__, "worker", *words]
            started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    told = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"{job}: {told}")
    return max(float(text.split()[-1]) for text in told)


def worker(job: str, data: str, index: str, count: str, meet: str, core: str, asked: str) -> None:
    """One of the processes, on one core from the start: JAX makes as many threads as it may use cores."""
    os.sched_setaffinity(0, {int(core)})
    here = Place(int(index), int(count), meet)
    team = distributed.join(here)
    print(JOBS[job](data, team, **json.loads(asked)), flush=True)
    distributed.leave(team, here)


def fit_pass(data: str, team: Team, centres: int, **_: int) -> float:
    """From the centres' rows to the last block of the pass."""
    seen: dict[str, float] = {}

    def progress(stage: str, *_: object, **__: object) -> None:
        seen[stage] = time.perf_counter()

    model = InfiniteAE(centres=centres, reg=REG)
    model.fit_prepared(PartitionedLog.open(data), team=team, progress=progress)
    return seen["one pass over the users"] - seen["looking for the centres"]


def distillation_step(data: str, team: Team, distilled: int, batch: int, steps: int, **_: int) -> float:
    """The median step, without compilation."""
    from infrec.distillation import distill

    split = holdout(Interactions.read(data))
    made = distill(split, distilled, batch=batch, steps=steps, validate_every=steps)
    return made.about["ms_per_step"] / 1e3


JOBS: dict[str, Callable[..., float]] = {"fit: the pass": fit_pass, "distillation: a step": distillation_step}


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main()
