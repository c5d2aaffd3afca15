"""The numerical tests as other CPUs would run them: `make test-cpus`, or `make test-cpus CPUS="Haswell-1"`.

OpenBLAS has kernels for many CPUs and takes those it is told to (OPENBLAS_CORETYPE). Each adds up in an order
of its own, and so does each number of threads. XLA can be kept from instructions that a CPU has. A setting is
the name of a CPU and a number of threads (`Haswell-2`; without a number: 1, 2 and 4), or `XLA-AVX2`. Settings
whose instructions this CPU does not have are passed over with a sentence. What XLA compiles is the same for
all settings of OpenBLAS: it is compiled for the first of them.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

# Whatever multiplies matrices; without HTTP, pages, files and the real datasets.
NUMERICAL = (
    "tests/kernels",
    "tests/metrics",
    "tests/models",
    "tests/evaluation",
    "tests/distillation",
    "tests/samplers",
    "tests/search",
    "tests/privacy",
    "tests/serve/test_answers.py",
    "tests/cli/test_commands.py",
)
NEEDS = {"Nehalem": "sse4_2", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512f"}
THREADS = (1, 2, 4)
XLA = "XLA-AVX2"


def environment(setting: str) -> dict[str, str]:
    """The variables of a setting."""
    if setting == XLA:
        return {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    cpu, threads = setting.split("-")
    return {"OPENBLAS_CORETYPE": cpu, "OPENBLAS_NUM_THREADS": threads}


def settings(words: list[str]) -> list[str]:
    """What was asked for, a name without a number three times; everything where nothing was."""
    every = [f"{cpu}-{threads}" for cpu in NEEDS for threads in THREADS] + [XLA]
    chosen = [one for word in words for one in every if word in (one, one.split("-")[0])] if words else every
    unknown = [word for word in words if not any(word in (one, one.split("-")[0]) for one in every)]
    if unknown:
        sys.exit(f"there is no setting {unknown[0]}; there are: {', '.join(every)}.")
    return chosen


def instructions() -> set[str]:
    """What this CPU can, as Linux lists it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.split()}


def main(words: list[str]) -> int:
    """Run the tests once for each setting; 1 where any of them failed."""
    with tempfile.TemporaryDirectory(prefix="infrec-xla-") as compiled:
        kept = {"JAX_COMPILATION_CACHE_DIR": compiled, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        failed = [setting for setting in settings(words) if not passes(setting, kept)]
    sys.stderr.write(f"failed under: {', '.join(failed)}\n" if failed else "passed under every setting\n")
    return 1 if failed else 0


def passes(setting: str, kept: dict[str, str]) -> bool:
    """Whether the tests pass, or are passed over. kept: variables that say where compiled steps are kept."""
    needed = NEEDS.get(setting.split("-")[0], "avx2")
    if needed not in instructions():
        sys.stderr.write(f"== {setting}: passed over, this CPU ({platform.machine()}) has no {needed}\n")
        return True
    sys.stderr.write(f"== {setting}: {environment(setting)}\n")
    run = ["-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "-m", "not real_data", *NUMERICAL]
    variables = {**os.environ, **kept, **environment(setting)}
    return subprocess.run([sys.executable, *run], env=variables, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
