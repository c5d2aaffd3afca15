"""Ctrl-C in a process of its own: exit code 130 at any moment, one line or silence, never a traceback.

What is not covered is Python's own start, before it reaches `infrec.cli.main`: there it ends as Python does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")

# Interrupts itself when it imports its n-th module after `main` has begun.
AT_AN_IMPORT = """
import os, signal, sys
n, imports = int(sys.argv[1]), 0
def count(event, arguments):
    global imports
    if event == "import":
        imports += 1
        if imports == n:
            os.kill(os.getpid(), signal.SIGINT)
from infrec.cli import interrupts, main
interrupts.install()
sys.addaudithook(count)
main(sys.argv[2:])
"""
AT_THE_END = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from infrec.cli import main
main(sys.argv[1:])
"""
SWALLOWED = """
import os, signal, sys
from infrec.cli import app, main, trial
class Callback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
def converted(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    except KeyboardInterrupt:
        raise ImportError("some module failed to import")
trial.fit_for = (lambda *_, **__: Callback() and None) if sys.argv.pop(1) == "del" else converted
main(sys.argv[1:])
"""


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background of a shell has them ignore SIGINT, and their children too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A file whose data never comes."""
    os.mkfifo(tmp_path / "slow.csv")
    return tmp_path / "slow.csv"


def test_while_it_waits_for_data(pipe: Path) -> None:
    process = start("-m", "infrec", "evaluate", pipe, "--json")
    writer = None
    while writer is None and process.poll() is None:
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # refused until somebody reads
        except OSError:
            time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert json.loads(out)["error"]["type"] == "Interrupted"


@pytest.mark.parametrize("n", [1, 2, 20, 100, 300, 500])
def test_while_modules_are_imported(pipe: Path, n: int) -> None:
    """500 is past the command line's own modules, in those of the command that was asked for."""
    process = start("-c", AT_AN_IMPORT, n, "evaluate", pipe)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err in ("", "error: interrupted; nothing was saved.\n")


def test_while_python_ends() -> None:
    """The command is done, so its exit code is the one."""
    process = start("-c", AT_THE_END, "--version")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "") and out.startswith("infrec ")


@pytest.mark.parametrize("where", ["del", "import"])
def test_an_interrupt_that_somebody_swallows(ratings: Path, where: str) -> None:
    process = start("-c", SWALLOWED, where, "evaluate", ratings)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err and err.count("error: ") <= 1 and "import" not in err
