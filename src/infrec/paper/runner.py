"""From what a person asked for to a grid of cells; and runs those that have no record yet.

Cells run in this process, in several of this machine, or on a Ray cluster, an existing one or a small one
started here; each is an `Executor`.

Everything that survives is in the records' directory, so a run that was killed, a second run and a run beside
this one all just go on: a cell with a record is done, a cell that another process has claimed is left to it.
A worker of a cluster does what a process of this machine does (`perform`). One that dies takes its claim with
it, and its cell is given out again, until it was begun `ATTEMPTS` times.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from infrec.data import datasets
from infrec.errors import ConfigError, DataError, InfrecError
from infrec.machine import cores
from infrec.paper import measure
from infrec.paper.cells import Cell
from infrec.paper.experiment import SEEDS, Experiment, Plan
from infrec.paper.records import LOOK, Record, Records
from infrec.progress import Progress, silent
from infrec.search import committed

QUICK_DATASET = "demo"
SEARCH_SECONDS = 120.0  # for each trained model, where `search` asks for a new search
SECONDS_BETWEEN_LOOKS = 0.5  # at a cell that another process has


# ---- planning ---------------------------------------------------------------------------------------------
def _chosen_datasets(experiment: Experiment, requests: Sequence[str], *, quick: bool) -> tuple[str, ...]:
    """The datasets asked for; else `demo` for a quick look, or those of the experiment on this machine."""
    if requests:
        return tuple(dict.fromkeys(requests))
    if quick:
        return (QUICK_DATASET,)
    names = tuple(name for name in experiment.datasets if datasets.locate(name) is not None)
    if not names:
        raise DataError(
            f"none of the datasets of {experiment.name} ({', '.join(experiment.datasets)}) lies on this "
            "machine; point INFREC_DATA at a folder that holds them, or name one with --dataset (demo "
            "needs no file)."
        )
    return names


def plan(
    experiment: Experiment,
    requests: Sequence[str] = (),
    *,
    root: Path,
    quick: bool = False,
    seeds: int | None = None,
    search: bool = False,
) -> Plan:
    """Everything that the grid of an experiment depends on.

    Args:
        experiment: The experiment.
        requests: Names or files of datasets; by default those of the experiment that are on this machine.
        root: Where records lie, and selections that are taken before the committed ones.
        quick: A look in minutes: on `demo`, with one seed and a smaller grid.
        seeds: How many, for what is random; by default the experiment's.
        search: Whether settings of trained models are searched anew.
    """
    count = seeds if seeds is not None else 1 if quick else experiment.seeds
    if not 1 <= count <= len(SEEDS):
        raise ConfigError(f"{count} seeds were asked for; expected 1 to {len(SEEDS)}.")
    names = _chosen_datasets(experiment, requests, quick=quick)

    def settings_of(dataset: str, model: str) -> dict[str, object]:
        entry = committed.read(dataset, model, root / "selected") or committed.read(dataset, model)
        return {} if entry is None else {key: value for key, value in entry.settings.items() if key != "seed"}

    return Plan(
        datasets=names,
        seeds=SEEDS[:count],
        users={name: measure.load(name).train.n_users for name in names},
        quick=quick,
        search=SEARCH_SECONDS if search else None,
        selected=settings_of,
    )


def only(cells: Sequence[Cell], words: Sequence[str]) -> list[Cell]:
    """The cells that have one of these tags: models, sources, numbers of users, noise (`5%`), labels.

    A cell must have all tags of a word such as `full+ease`.
    """
    if not words:
        return list(cells)
    known = sorted({tag for cell in cells for tag in cell.tags})
    wanted = [set(word.split("+")) for word in words]
    unknown = sorted(set().union(*wanted) - set(known))
    if unknown:
        raise ConfigError(f"nothing in this grid is called {unknown[0]!r}; there is: {', '.join(known)}.")
    return [cell for cell in cells if any(each <= cell.tags for each in wanted)]


# ---- running ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Done:
    """Outcome of a cell: its record; or why there is none; or neither, when another process has it."""

    cell: Cell
    record: Record | None = None
    error: str | None = None


class Executor(Protocol):
    """Runs cells somewhere and tells of each when it has ended, in any order.

    The worker claims the cell and writes its record (`perform`), so that nothing is lost when whoever asked
    for it dies.
    """

    def run(self, cells: Sequence[Cell], directory: Path) -> Iterator[Done]: ...


def perform(cell: Cell, directory: Path, progress: Progress = silent) -> Done:
    """Run one cell unless it is done or taken, and write its record."""
    records = Records(directory)
    with records.claim(cell.hash) as ours:
        if not ours:
            return Done(cell)
        if (old_record := records.read().get(cell.hash)) is not None:
            return Done(cell, old_record)
        try:
            record = measure.measure_cell(cell, directory.parent / measure.FOLDER, progress)
        except InfrecError as failure:
            return Done(cell, error=str(failure))
        records.append(record)
        return Done(cell, record)


@dataclass(frozen=True)
class Here:
    """One cell after the other, in this process."""

    progress: Progress = silent

    def run(self, cells: Sequence[Cell], directory: Path) -> Iterator[Done]:
        for cell in cells:
            yield perform(cell, directory, self.progress)


@dataclass(frozen=True)
class Processes:
    """Several cells at a time, each in its own process.

    They are started anew, never forked: a copy of a process in which JAX has started threads would hang.
    """

    count: int

    def run(self, cells: Sequence[Cell], directory: Path) -> Iterator[Done]:
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(self.count, len(cells)), mp_context=fresh) as pool:
            waiting = {pool.submit(perform, cell, directory) for cell in cells}
            try:
                while waiting:
                    ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (each.result() for each in ended)
            except BrokenProcessPool:
                raise InfrecError(
                    "a process ended in the middle of a cell, most likely for lack of memory; use fewer "
                    "--processes: what is measured is kept, and the next run goes on from there."
                ) from None
            finally:
                for each in waiting:
                    each.cancel()


@dataclass
class Outcome:
    """The records of a grid, and what could not be run."""

    records: list[Record] = field(default_factory=list)
    errors: list[tuple[Cell, str]] = field(default_factory=list)
    ran: int = 0


def run(
    cells: Iterable[Cell], directory: Path, *, executor: Executor | None = None, progress: Progress = silent
) -> Outcome:
    """The record of every cell, in the order of the cells: those on disk, and the others run now.

    A cell that an experiment beside this one has measured is copied. Cells that another process has claimed
    are waited for, and run here should it end without a record.
    """
    wanted = list({cell.hash: cell for cell in cells}.values())
    records, out = Records(directory), Outcome()
    records_by_hash = records.read()
    others = records.elsewhere()
    for cell in wanted:
        known = records_by_hash.get(cell.hash, others.get(cell.hash))
        if known is None or _settled(records_by_hash.get(cell.hash), cell):
            continue
        records_by_hash[cell.hash] = _taken_over(known, cell)
        with records.claim(cell.hash) as ours:
            if ours and not _settled(records.read().get(cell.hash), cell):
                records.append(records_by_hash[cell.hash])
    failed: dict[str, str] = {}
    began, before = time.monotonic(), len(wanted) - len(missing(wanted, records_by_hash))
    while todo := [cell for cell in missing(wanted, records_by_hash) if cell.hash not in failed]:
        news = False
        for done in (executor or Here()).run(todo, directory):
            if done.record is not None:
                records_by_hash[done.cell.hash] = done.record
                out.ran += 1
            elif done.error is not None:
                failed[done.cell.hash] = done.error
                out.errors.append((done.cell, done.error))
            else:
                continue
            news = True
            have = sum(cell.hash in records_by_hash for cell in wanted)
            each = (time.monotonic() - began) / max(1, have - before)
            left = each * (len(wanted) - have - len(failed))
            progress("cells", have, len(wanted), last=done.cell.words, seconds_left=left)
        if not news:  # everything that is missing is in other hands
            time.sleep(SECONDS_BETWEEN_LOOKS)
            records_by_hash |= records.read()
    out.records = [records_by_hash[cell.hash] for cell in wanted if cell.hash in records_by_hash]
    return out


def _settled(record: Record | None, cell: Cell) -> bool:
    """Whether a record can stay as it is: that of a quick look is written again for a run in earnest."""
    return record is not None and (cell.quick_look or LOOK not in record)


def _taken_over(record: Record, cell: Cell) -> Record:
    """The record as this run has it: what only a quick look has asked for is marked."""
    unmarked = {name: value for name, value in record.items() if name != LOOK}
    return {**unmarked, LOOK: True} if cell.quick_look else unmarked


def missing(cells: Sequence[Cell], records: dict[str, Record]) -> list[Cell]:
    """The cells that have no record."""
    return [cell for cell in cells if cell.hash not in records]


# ---- a cluster ---------------------------------------------------------------------------------------------
LOCAL = "local"
SECONDS_TO_ANSWER = 10.0
ATTEMPTS = 3  # of a cell whose worker dies
_ENVIRONMENT = ("INFREC_DATA", "XDG_CACHE_HOME", "JAX_PLATFORMS", "JAX_COMPILATION_CACHE_DIR")
_OBJECT_STORE = 80_000_000  # bytes: what travels is a cell and its record


@dataclass(frozen=True)
class Ray:
    """Several cells at a time, as many as the cluster has processors. The disk must be the same everywhere.

    address: of an existing cluster, `auto` for the one of this machine; `local` starts one with `processors`.
    """

    address: str = LOCAL
    processors: int = 2

    def run(self, cells: Sequence[Cell], directory: Path) -> Iterator[Done]:
        ray = _ray()
        started = self._join(ray)
        here = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        # Ray itself would repeat a task whose worker died without saying so, or counting.
        # Ray gives each task one thread; the last digits depend on how many there are.
        threads = os.environ.get("OMP_NUM_THREADS", str(cores()))
        task = ray.remote(num_cpus=1, max_retries=0, runtime_env={"env_vars": {"OMP_NUM_THREADS": threads}})(
            _work
        )

        def begin(cell: Cell) -> Any:
            return task.remote(cell, directory.resolve(), str(Path.cwd()), here)

        try:
            attempts = dict.fromkeys(cells, 1)
            waiting = {begin(cell): cell for cell in cells}
            while waiting:
                (ended, *_), _ = ray.wait(list(waiting), num_returns=1)
                cell = waiting.pop(ended)
                try:
                    done = ray.get(ended)
                except ray.exceptions.RayTaskError as failure:
                    raise InfrecError(
                        f"{cell.words} failed on the cluster: {_reason(failure)}; check that infrec and "
                        "the data are the same on every node."
                    ) from None
                except ray.exceptions.RayError as failure:
                    if attempts[cell] == ATTEMPTS:
                        yield Done(cell, error=f"its worker died {ATTEMPTS} times: {_reason(failure)}")
                    else:
                        attempts[cell] += 1
                        waiting[begin(cell)] = cell
                    continue
                yield done
        finally:
            if started:
                ray.shutdown()

    def _join(self, ray: Any) -> bool:
        """Connect; True when the connection is ours to close."""
        if ray.is_initialized():
            return False
        quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        if self.address == LOCAL:
            ray.init(
                address="local",
                num_cpus=self.processors,
                object_store_memory=_OBJECT_STORE,
                **quiet,
            )
            return True
        try:
            _knock(os.environ.get("RAY_ADDRESS", "") if self.address == "auto" else self.address)
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, OSError) as failure:
            raise ConfigError(
                f"there is no Ray cluster at {self.address!r} ({_reason(failure)}); give the address of one "
                "that runs (ray start --head), or `--cluster local`."
            ) from None
        return True


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError("--cluster needs Ray; install it with: pip install 'infrec[cluster]'.") from None
    return ray


def _work(cell: Cell, directory: Path, folder: str, environment: dict[str, str]) -> Done:
    """`perform` as the one who asks would: where relative paths begin, and where datasets lie."""
    os.environ.update(environment)
    os.chdir(folder)
    return perform(cell, directory)


def _knock(address: str) -> None:
    """Whether anybody answers there: Ray itself would try for minutes."""
    match = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d+)", address)
    if match is not None:
        socket.create_connection((match[1], int(match[2])), timeout=SECONDS_TO_ANSWER).close()


def _reason(failure: BaseException) -> str:
    return " ".join(str(failure).split())[:160]
