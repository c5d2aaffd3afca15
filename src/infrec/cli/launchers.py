"""Which process of how many this is, from options and from what a launcher left in the environment.

| launcher | count and index from | where they meet |
|---|---|---|
| given | --processes, --index | --coordinator |
| JAX's own names | JAX_NUM_PROCESSES, JAX_PROCESS_ID | JAX_COORDINATOR_ADDRESS |
| Slurm | SLURM_NTASKS, SLURM_PROCID | the first node of the step, a port from the job's number |
| Open MPI | OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK | this machine, or where mpirun runs |
| Kubernetes, indexed job | --processes, JOB_COMPLETION_INDEX | --coordinator |
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from infrec.errors import ConfigError

_PORTS = (20_000, 12_000)  # the first one, and how many: below those that systems hand out


@dataclass(frozen=True)
class Place:
    """One process of a fit: which, of how many, and where they meet (HOST:PORT, on the first one's)."""

    index: int
    count: int
    coordinator: str | None = None
    launcher: str = "given"
    device: int | None = None  # the one GPU of its machine that it uses; None: all that it sees

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.index < self.count:
            raise ConfigError(
                f"this is process {self.index} of {self.count}; expected a number of processes of 1 or more "
                "and an index from 0 to one less."
            )
        if self.coordinator is not None and not re.fullmatch(r".+:\d{1,5}", self.coordinator):
            raise ConfigError(
                f"the coordinator is {self.coordinator!r}; expected HOST:PORT, such as node1:8476."
            )


def place(
    environment: Mapping[str, str],
    *,
    coordinator: str | None = None,
    processes: int | None = None,
    index: int | None = None,
) -> Place:
    """Where this process stands: what is given comes first, then what the launcher says."""
    env = environment
    coordinator = coordinator or env.get("JAX_COORDINATOR_ADDRESS")
    launcher, size, rank, meeting = "given", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", None
    if processes is None or index is None:
        if "OMPI_COMM_WORLD_SIZE" in env:
            launcher, size, rank = "Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"
            meeting = _open_mpi(env)
        elif "SLURM_PROCID" in env:
            size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"
            launcher, rank, meeting = "Slurm", "SLURM_PROCID", _slurm(env)
        elif "JOB_COMPLETION_INDEX" in env:
            launcher, rank = "Kubernetes", "JOB_COMPLETION_INDEX"
    processes = _number(env, size) if processes is None else processes
    index = _number(env, rank) if index is None else index
    if processes is None or index is None:
        missing = "--processes" if processes is None else "--index"
        raise ConfigError(
            f"{missing} is not given and no launcher tells it (Slurm, Open MPI, a Kubernetes indexed job); "
            "start every process with --coordinator HOST:PORT --processes N --index I."
        )
    coordinator = coordinator or meeting
    if coordinator is None and processes > 1:
        raise ConfigError(
            "the processes do not know where to meet; give --coordinator HOST:PORT: the machine of process 0 "
            "and a free port on it."
        )
    return Place(index, processes, coordinator, launcher, _device(env))


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit():
        raise ConfigError(f"{name} is {text!r} in the environment; expected a whole number.")
    return int(text)


def _device(env: Mapping[str, str]) -> int | None:
    """Slurm and Open MPI number the processes of a machine: each takes the GPU of its number.

    Not where the launcher has given every process a GPU of its own.
    """
    if env.get("CUDA_VISIBLE_DEVICES", ",").count(",") == 0:
        return None
    local = _number(env, "SLURM_LOCALID")
    return _number(env, "OMPI_COMM_WORLD_LOCAL_RANK") if local is None else local


def _slurm(env: Mapping[str, str]) -> str | None:
    """The first node of the step; a port of its own for every job and step."""
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST")
    if not nodes:
        return None
    step = f"{env.get('SLURM_JOB_ID', '0')}.{env.get('SLURM_STEP_ID', '0')}"
    return f"{first_host(nodes)}:{_port(step)}"


def first_host(nodes: str) -> str:
    """`node[003-007,9],other` → `node003`."""
    match = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\])?([^,\[]*)", nodes.strip())
    if match is None:
        raise ConfigError(f"the list of nodes is {nodes!r}; expected something like node[001-004].")
    return "".join(part or "" for part in match.groups())


def _open_mpi(env: Mapping[str, str]) -> str | None:
    """This machine where all processes are on it; else where mpirun runs (Open MPI 4 tells it)."""
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid") or "0"
    uri = env.get("OMPI_MCA_orte_hnp_uri", "")
    if env.get("OMPI_COMM_WORLD_LOCAL_SIZE") == env["OMPI_COMM_WORLD_SIZE"]:
        return f"127.0.0.1:{_port(job)}"
    address = re.search(r"tcp://([^,:]+)", uri)
    return f"{address[1]}:{_port(job)}" if address else None


def _port(job: str) -> int:
    first, many = _PORTS
    return first + zlib.crc32(job.encode()) % many
