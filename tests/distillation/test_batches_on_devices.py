"""A distillation on two devices, and in two processes, is the one on one device; stopped or not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("compiled_quickly")  # in the processes

CODE = """
import sys
import numpy as np
processes, index, port, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if processes > 1:
    from infrec.cli import distributed
    from infrec.cli.launchers import Place
    here = Place(index, processes, f"127.0.0.1:{port}")
    team = distributed.join(here)
from infrec.data.synthetic import generate
from infrec.distillation import distill
from infrec.splits import holdout
split = holdout(generate(300, 80, 5000, seed=3))
asked = dict(users=20, mode="soft", steps=8, validate_every=4, batch=101, run_directory=out + ".run")
if processes > 1:  # refused together, then stopped by one of them, then resumed
    import os, signal
    from infrec.distillation import Interrupted
    from infrec.errors import ConfigError
    try:
        distill(split, seed=index, **asked)
        raise SystemExit("different settings were not refused")
    except ConfigError as refused:
        assert "process 1 has other data or settings than process 0" in str(refused)
    def progress(stage, done, total=None, **facts):
        if stage == "distil" and index == 1 and done == 3:
            os.kill(os.getpid(), signal.SIGTERM)
    try:
        distill(split, seed=1, progress=progress, **asked)
        raise SystemExit("it was not stopped")
    except Interrupted as stopped:
        assert "stopped at step" in str(stopped)
made = distill(split, seed=1, resume=processes > 1, **asked)
found = {"summary": made.matrix.toarray()}
for name in ("loss", "HR@10"):
    found[name] = np.array([row[name] or 0.0 for row in made.about["history"]])
if index == 0:
    np.savez(out, **found)
if processes > 1:
    distributed.leave(team, here)
"""


def ran(out: Path, *, devices: int = 1, processes: int = 1) -> dict[str, np.ndarray]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "OMP_NUM_THREADS": "1",
    }
    started = [
        subprocess.Popen([sys.executable, "-c", CODE, str(processes), str(index), port, str(out)], env=env)
        for index in range(processes)
    ]
    assert [process.wait(timeout=300) for process in started] == [0] * processes
    return read(out)


def read(out: Path) -> dict[str, np.ndarray]:
    with np.load(out) as found:
        return dict(found)


@pytest.fixture(scope="module")
def alone(compiled_quickly: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """On one device, in this process."""
    out = tmp_path_factory.mktemp("alone") / "found.npz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["-c", "1", "0", "", str(out)])
        exec(CODE, {})
    return read(out)


@pytest.mark.parametrize("how", [{"devices": 2}, {"processes": 2}], ids=["devices", "processes"])
def test_two_are_one(how: dict[str, int], alone: dict[str, np.ndarray], tmp_path: Path) -> None:
    """101 users of a mini-batch do not divide by two. Sums of two parts are rounded differently."""
    both = ran(tmp_path / "found.npz", **how)
    np.testing.assert_allclose(both["loss"], alone["loss"], rtol=1e-4)
    np.testing.assert_allclose(both["HR@10"], alone["HR@10"], atol=0.5)
    np.testing.assert_allclose(both["summary"], alone["summary"], atol=1e-3)
