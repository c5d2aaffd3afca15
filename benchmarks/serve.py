"""How fast and how well-behaved the service is, on this machine's cores shared by server and load.

    python benchmarks/serve.py [--summary DIR] [--full DIR] [--seconds 5] [--workers 1] [--json FILE]

Capacity (closed loop), then an open loop at 70 % of it and at 560 a second (70 % of the 800 aimed for), then
ten times the capacity; start-up time, memory, the Python API for one user; beside it implicit's recommend
behind the same kind of endpoint, in the same run. Load goes to 127.0.0.1 only and ends by itself. Without
--summary, 500 users of ml-1m (where $INFREC_DATA has it) or of the demo data are sampled: same size, hence
the same speed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from infrec.data import Summary, datasets
from infrec.models import InfiniteAE
from infrec.samplers import sample
from serving.load import Outcome, run

USERS, HISTORY, K = 500, 20, 10
AIM = 800
CONNECTIONS = 128


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = "ml-1m" if (Path(os.environ.get("INFREC_DATA", "/")) / "ml-1m.parquet").is_file() else "demo"
        log = datasets.load(data)
        summary = options.summary or folder / "sample"
        if options.summary is None:
            few = sample(log, strategy="user-rns", users=min(USERS, log.n_users), seed=42)
            Summary.of(few, kind="sample", about={"reg": 1.0}).save(summary)
        known = Summary.load(summary)
        histories = draw(known.items.ids.to_pylist(), known.item_counts)
        print(f"{data}: {known!r}; {machine()}")
        record: dict[str, Any] = {"machine": machine(), "data": data, "load_before": os.getloadavg()[0]}

        record["api"] = api(known, histories, folder)
        with server(summary, options.workers) as (port, started, pid):
            record["infrec"] = {"first_answer_s": started, **measure("infrec", port, pid, histories, options)}
            record["infrec"]["overload"] = overload(port, pid, histories, record["infrec"], options)
        if options.full is not None:
            with server(options.full, options.workers) as (port, started, pid):
                found = run(port, requests(port, histories), seconds=options.seconds, connections=64)
                record["full"] = {
                    "per_second": found.rate(),
                    "first_answer_s": started,
                    "memory": memory(pid),
                }
                print(
                    f"full model: {found.rate():,.0f}/s batched, {memory(pid):.0f} MB, start {started:.1f} s"
                )
        if not options.without_implicit:
            pq.write_table(known.to_table(), folder / "rows.parquet")
            with implicit_endpoint(folder / "rows.parquet") as (port, pid):
                record["implicit"] = measure("implicit", port, pid, histories, options)
        record["load_after"] = os.getloadavg()[0]
        print(f"load average before and after: {record['load_before']:.1f}, {record['load_after']:.1f}")
        if options.json:
            options.json.write_text(json.dumps(record, indent=1))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--summary", type=Path, help="what to serve; a sample is made without")
    parser.add_argument("--full", type=Path, help="a saved model of all users, measured too")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--without-implicit", action="store_true")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


# ---- what is measured -----------------------------------------------------------------------------
def measure(
    name: str, port: int, pid: int, histories: list[list[int]], options: argparse.Namespace
) -> dict[str, Any]:
    """Capacity, then latencies at 70 % of it and at 70 % of what is aimed for."""
    asked = requests(port, histories)
    run(port, asked, seconds=1, connections=16)  # warm
    before = cpu_seconds(pid)
    closed = run(port, asked, seconds=options.seconds, connections=32)
    capacity = closed.rate()
    used = (cpu_seconds(pid) - before) / max(1, len(closed.taken.get(200, ())))
    out: dict[str, Any] = {"capacity": capacity, "cpu_ms_per_request": 1000 * used, "memory_mb": memory(pid)}
    print(
        f"{name}: {capacity:,.0f}/s (closed loop, 32 connections; {1000 * used:.2f} ms of CPU each), "
        f"{out['memory_mb']:.0f} MB"
    )
    for label, rate in (("70 % of capacity", 0.7 * capacity), (f"70 % of {AIM}", 0.7 * AIM)):
        found = run(port, asked, seconds=options.seconds, rate=rate, connections=CONNECTIONS)
        out[label] = told(found)
        print(
            f"  {label}: {rate:,.0f}/s open loop: p50 {found.percentile(50):.1f} ms, "
            f"p99 {found.percentile(99):.1f} ms, max {found.percentile(100):.0f} ms, "
            f"answers {counts(found)}"
        )
    return out


def overload(
    port: int, pid: int, histories: list[list[int]], normal: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Ten times what it can: the rest is told so at once, and memory stays where it was."""
    rate, before = 10 * normal["capacity"], memory(pid)
    found = run(
        port,
        requests(port, histories),
        seconds=options.seconds,
        rate=rate,
        connections=CONNECTIONS,
        drop=True,
    )
    usual = normal["70 % of capacity"]["p99_ms"]
    print(
        f"  ten times capacity: planned {rate:,.0f}/s, sent "
        f"{(found.planned - found.unsent) / found.seconds:,.0f}/s; answers {counts(found)}, failed "
        f"{found.failed}\n    200: {found.rate():,.0f}/s, p50 {found.percentile(50):.1f}, "
        f"p99 {found.percentile(99):.1f} ms (normal {usual:.1f}); 503: p50 {found.percentile(50, 503):.1f}, "
        f"p99 {found.percentile(99, 503):.1f}, max {found.percentile(100, 503):.0f} ms; "
        f"memory {before:.0f} → {memory(pid):.0f} MB"
    )
    return {
        **told(found),
        "refused_p99_ms": found.percentile(99, 503),
        "refused_max_ms": found.percentile(100, 503),
        "unsent": found.unsent,
        "memory_mb": [before, memory(pid)],
    }


def api(known: Summary, histories: list[list[int]], folder: Path) -> dict[str, float]:
    """One user's recommendation from Python, and the size of the saved model."""
    model = InfiniteAE(reg=1.0 if known.reg is None else known.reg).fit(known)
    model.save(folder / "saved")
    size = sum(file.stat().st_size for file in (folder / "saved").iterdir())
    for history in histories[:20]:
        model.recommend(histories=[history], k=K)
    taken = []
    for history in histories[20:220]:
        began = time.perf_counter()
        model.recommend(histories=[history], k=K)
        taken.append(time.perf_counter() - began)
    middle = 1000 * float(np.median(taken))
    print(f"Python API, one user: median {middle:.2f} ms; saved model {size / 1e6:.2f} MB")
    return {"one_user_ms": middle, "saved_mb": size / 1e6}


# ---- processes ------------------------------------------------------------------------------------
@contextmanager
def server(path: Path, workers: int) -> Iterator[tuple[int, float, int]]:
    """`infrec serve` in a process: its port, the seconds from the command to the first answer, its id."""
    began = time.perf_counter()
    words = [sys.executable, "-m", "infrec", "serve", str(path), "--port", "0", "--json", "--quiet"]
    # As installed: compiled modules are kept between runs, wherever this one was told not to.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "infrec-bench-pyc")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        [*words, "--workers", str(workers)], stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None
    try:
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith("}"):
                break
        port = int(json.loads(text)["url"].rsplit(":", 1)[1].strip("/"))
        first = run(port, requests(port, [[1]]), seconds=1, rate=1.0, connections=1, seed=3)
        assert 200 in first.taken
        started = time.perf_counter() - began - first.seconds + first.taken[200][0]
        print(f"from the command to the first answer: {started:.2f} s")
        yield port, started, process.pid
    finally:
        process.terminate()
        began = time.perf_counter()
        process.wait(10)
        print(f"  SIGTERM to exit: {time.perf_counter() - began:.2f} s (code {process.returncode})")


@contextmanager
def implicit_endpoint(rows: Path) -> Iterator[tuple[int, int]]:
    script = Path(__file__).parent / "serving" / "implicit_endpoint.py"
    process = subprocess.Popen([sys.executable, script, rows], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        time.sleep(1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(10)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children so far."""
    total = 0.0
    for each in family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(") ", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def memory(pid: int) -> float:
    """Resident megabytes of a process and its children; pages that they share count once (PSS)."""
    total = 0
    for each in family(pid):
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


# ---- requests -------------------------------------------------------------------------------------
def draw(ids: list[int], counts: Any) -> list[list[int]]:
    """Histories of 20 items, popular ones more often, as people have them."""
    rng = np.random.default_rng(0)
    weights = (counts + 1) / (counts + 1).sum()
    return [[ids[at] for at in rng.choice(len(ids), HISTORY, replace=False, p=weights)] for _ in range(400)]


def requests(port: int, histories: list[list[int]]) -> list[bytes]:
    out = []
    for history in histories:
        body = json.dumps({"history": history, "k": K}).encode()
        head = f"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        out.append(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return out


def counts(found: Outcome) -> dict[int, int]:
    return {status: len(values) for status, values in sorted(found.taken.items())}


def told(found: Outcome) -> dict[str, Any]:
    return {
        "per_second": found.rate(),
        "p50_ms": found.percentile(50),
        "p99_ms": found.percentile(99),
        "answers": counts(found),
        "failed": found.failed,
    }


def machine() -> str:
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, Python {platform.python_version()}, numpy {np.__version__}"


if __name__ == "__main__":
    main()
