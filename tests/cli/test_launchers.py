"""Which process of how many: from options and from what launchers leave in the environment."""

from __future__ import annotations

import pytest

from infrec.cli.distributed import join
from infrec.cli.launchers import Place, first_host, place
from infrec.errors import ConfigError
from infrec.kernels.collectives import Team

SLURM = {
    "SLURM_JOB_ID": "1207",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NODELIST": "gpu[017-018,031]",
}
MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "PMIX_NAMESPACE": "prterun-a-9@1"}


def test_given_comes_before_any_launcher() -> None:
    asked = place(SLURM, coordinator="node1:8476", processes=2, index=1)
    assert asked == Place(1, 2, "node1:8476", "given")
    assert place({}, processes=1, index=0).coordinator is None
    own = {"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"}
    assert place(own) == Place(0, 2, "h:1", "given")


def test_slurm() -> None:
    found = place(SLURM)
    assert (found.index, found.count, found.launcher) == (3, 8, "Slurm")
    assert found.coordinator is not None and found.coordinator.startswith("gpu017:")
    assert place({**SLURM, "SLURM_PROCID": "5"}).coordinator == found.coordinator  # all meet at one place
    assert place({**SLURM, "SLURM_STEP_ID": "1"}).coordinator != found.coordinator  # a step of its own
    assert place({**SLURM, "SLURM_STEP_NUM_TASKS": "6"}).count == 6


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("n1", "n1"), ("n1,n2", "n1"), ("n[3-7]", "n3"), ("r[01,05]-x,n1", "r01-x"), ("a-b.c,d", "a-b.c")],
)
def test_the_first_node_of_a_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_open_mpi() -> None:
    here = place({**MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"})
    assert (here.index, here.count, here.launcher) == (2, 4, "Open MPI")
    assert here.coordinator is not None and here.coordinator.startswith("127.0.0.1:")
    far = {
        **MPI,
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "OMPI_MCA_orte_hnp_uri": "15.0;tcp://10.9.0.1,10.1.0.1:34",
    }
    assert str(place(far).coordinator).startswith("10.9.0.1:")
    with pytest.raises(ConfigError, match="give --coordinator"):
        place({**MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})


def test_processes_of_one_machine_take_a_gpu_each() -> None:
    assert place(SLURM).device is None
    assert place({**SLURM, "SLURM_LOCALID": "1"}).device == 1
    assert place({**SLURM, "SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "0,1"}).device == 1
    assert place({**SLURM, "SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "3"}).device is None
    local = {"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "2"}
    assert place({**MPI, **local}).device == 2


def test_a_kubernetes_job_tells_the_index() -> None:
    found = place({"JOB_COMPLETION_INDEX": "1"}, processes=4, coordinator="fit-0.fit:8476")
    assert found == Place(1, 4, "fit-0.fit:8476", "Kubernetes")
    with pytest.raises(ConfigError, match="--processes is not given"):
        place({"JOB_COMPLETION_INDEX": "1"}, coordinator="fit-0.fit:8476")


@pytest.mark.parametrize(
    ("environment", "asked", "words"),
    [
        ({}, {}, "no launcher tells it"),
        ({}, {"processes": 2}, "--index is not given"),
        ({}, {"processes": 2, "index": 2, "coordinator": "h:1"}, "process 2 of 2"),
        ({}, {"processes": 2, "index": 0, "coordinator": "node1"}, "expected HOST:PORT"),
        ({**SLURM, "SLURM_PROCID": "three"}, {}, "SLURM_PROCID is 'three'"),
    ],
)
def test_what_cannot_be(environment: dict, asked: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        place(environment, **asked)


def test_one_process_needs_no_runtime() -> None:
    assert type(join(Place(0, 1))) is Team
