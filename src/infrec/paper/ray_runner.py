"""Cells on a Ray cluster: an existing one, or a small one started here. One more `Executor`.

A worker does what a process of this machine does (`runner.perform`): it claims the cell on the disk that all
share, runs it and writes its record. A worker that dies takes its claim with it, and its cell is given out
again, until it was begun `ATTEMPTS` times. Records say what is done, so nothing is lost, nothing is done
twice, and it does not matter who did it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrec.errors import ConfigError, InfrecError
from infrec.machine import cores
from infrec.paper.cells import Cell
from infrec.paper.runner import Done, perform

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
