"""Damaged and hostile files by the thousand: `make fuzz`, or `python -m tests.fuzz --seconds 60 --seed 1`.

Four groups of cases. `artifacts`: every kind of saved directory with bytes changed, or with arrays, tables
and manifest entries changed and the hashes brought up to date, then loaded and asked for something. `bytes`:
the bytes of one of its files alone, which is quick. `inputs`: logs in every format with bytes changed, then
read. `checkpoints`: those of training and of distillation and noisy sums, changed and restored (with JAX).

A case must end in a sound result or in one sentence (an `InfrecError`): no other exception, no crash, no
number that is not finite, no case of more than `HANG` seconds, no memory beyond what honest files need and
`ROOM` bytes. Cases run in a child process, one after the other; case number N of a group depends on the seed
and N alone, so that `--only GROUP --first N --cases 1` repeats it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

HANG = 20  # seconds
ROOM = 256 << 20  # bytes that a case may take beyond what all honest files took, twice
LIMIT = 8 << 30  # of addresses: what asks for more fails, and is told
CHILD = 20_000  # cases of one process: the allocator's pools only ever take more addresses
SHARES = {"artifacts": 0.3, "bytes": 0.25, "inputs": 0.3, "checkpoints": 0.15}


# ---- the child: cases one after the other ------------------------------------------------------------------
def child(group: str, seed: int, first: int, cases: int, seconds: float, folder: Path) -> int:
    """Run cases until they or the time are used up; each finding is a line of JSON on standard output."""
    from tests import fuzz_cases

    shutil.rmtree(folder / "honest", ignore_errors=True)  # of a child that died
    run: Callable[[random.Random, Path], str] = fuzz_cases.GROUPS[group](folder / "honest")
    work = folder / "work"
    work.mkdir(exist_ok=True)
    allowed = 2 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + ROOM
    if group != "checkpoints":  # JAX reserves more addresses than it uses
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, resource.RLIM_INFINITY))
    ends = time.monotonic() + seconds
    at = os.open(folder / "at", os.O_RDWR | os.O_CREAT)
    number = first
    while number < first + cases and time.monotonic() < ends:
        os.pwrite(at, f"{number:20}".encode(), 0)
        faulthandler.dump_traceback_later(HANG, exit=True)
        found = _tried(run, random.Random(f"{seed} {group} {number}"), work)
        faulthandler.cancel_dump_traceback_later()
        if not found and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > allowed:
            found = f"it took more than {allowed >> 20} MiB"
            allowed *= 2  # the mark stays where it was once
        if found:
            print(json.dumps({"case": number, "found": found}), flush=True)
        number += 1
    print(json.dumps({"done": number - first}), flush=True)
    return 0


def _tried(run: Callable[[random.Random, Path], str], chance: random.Random, work: Path) -> str:
    """What is wrong with how a case ended; empty where nothing is."""
    from infrec.errors import InfrecError

    try:
        return run(chance, work)
    except InfrecError as error:
        said, cause = str(error), error.__context__
        while cause is not None:
            if isinstance(cause, MemoryError):
                return f"it asked for memory that a file cannot need: {cause}"
            cause = cause.__context__
        try:
            said.encode()
        except UnicodeEncodeError:
            return f"its error cannot be printed: {said!r}"
        return "" if said.endswith((".", "…")) and "\n" not in said else f"no sentence: {said!r}"
    except BaseException:
        return traceback.format_exc()


# ---- the parent --------------------------------------------------------------------------------------------
def findings(
    group: str, seed: int, first: int, cases: int, seconds: float, folder: Path
) -> Iterator[tuple[int, str]]:
    """(number, what is wrong) of each finding, then (−1, how many cases were run). A child that dies is a
    finding, and another one goes on after its case."""
    ends, start = time.monotonic() + seconds, first
    while start < first + cases and time.monotonic() < ends:
        left = ends - time.monotonic()
        words = [group, seed, start, min(first + cases - start, CHILD), left, folder]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz", "--child", *map(str, words)],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("w"),
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            if "case" in told:
                yield told["case"], told["found"]
            else:
                start += told["done"]
        if process.wait() == 0:
            continue
        last = (folder / "stderr").read_text(errors="replace")[-3000:]
        where = (folder / "at").read_text().strip() if (folder / "at").exists() else ""
        if not where or int(where) < start:
            raise SystemExit(f"the child did not start:\n{last}")
        yield int(where), f"the process ended with {process.returncode}:\n{last}"
        start = int(where) + 1
        shutil.rmtree(folder / "work", ignore_errors=True)
    yield -1, str(start - first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all groups together")
    parser.add_argument("--cases", type=int, default=10**9, help="of each group, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=sorted(SHARES), help="one group")
    asked = parser.parse_args()
    wrong = 0
    for group, share in SHARES.items():
        if asked.only not in (None, group):
            continue
        seconds = asked.seconds * (1.0 if asked.only else share)
        with tempfile.TemporaryDirectory(prefix="infrec-fuzz-") as name:
            kinds: Counter[str] = Counter()
            for case, what in findings(group, asked.seed, asked.first, asked.cases, seconds, Path(name)):
                if case < 0:
                    count = f"{what} cases, seed {asked.seed}, {kinds.total()} findings"
                    print(f"{group}: {count} of {len(kinds)} kinds", flush=True)
                    continue
                kind = "\n".join(line for line in what.splitlines() if line.startswith("  File"))[-160:]
                kinds[kind or what[:40]] += 1
                if kinds[kind or what[:40]] == 1:
                    repeat = f"--only {group} --seed {asked.seed} --first {case} --cases 1"
                    print(f"---- {repeat}\n{what}", flush=True)
            wrong += kinds.total()
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        words = sys.argv[2:]
        numbers = int(words[1]), int(words[2]), int(words[3])
        sys.exit(child(words[0], *numbers, float(words[4]), Path(words[5])))
    sys.exit(main())
