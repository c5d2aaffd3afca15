"""Answers to the last bit, before and after a change on the same machine.

    python -m tests.goldens.exact write DIR             run everything, keep one file for each answer in DIR
    python -m tests.goldens.exact compare DIR           run everything again; exit code 1 when one differs
    python -m tests.goldens.exact compare DIR distill   only answers whose name holds a word

Each command line is a process of its own in an empty folder. Kept are its JSON document without times, memory
and machine, and the SHA-256 of every file it made that holds no time. It takes some minutes.
The bits belong to a machine and its libraries, so none of this is in the repository.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.goldens import produce

MODELS = (
    "infinite-ae", "infinite-ae-plus", "ease", "poprec", "bias-only", "mf", "neumf", "lightgcn", "mvae",
)  # fmt: skip
STRATEGIES = ("interaction-rns", "user-rns", "head-user", "svp-cf", "herding", "ar-cf")
UNSTEADY = (".html", ".md")  # pages that tell when, where and how fast something was made
OUT = ("--out", "out")
SHORT = ("distill", "demo", "--users", "20", "--steps", "8", "--set", "validate_every=4", "--no-card", *OUT)
# Noise of a known seed, for this comparison only: whoever knows it can undo the noise.
KNOWN_NOISE = "import secrets; secrets.randbits = lambda bits: 20; "
START = "from infrec.cli import main; import sys; main(sys.argv[1:])"
LOG, DISCRETE, PREPARED = "log.csv", "saved/discrete", "saved/prepared"


def command_lines() -> dict[str, Sequence[str]]:
    """Everything that is run, by a name."""
    quick = ("reproduce", "--quick", "--records", "out")
    return {
        **{f"evaluate-{name}": ("evaluate", "demo", "--model", name) for name in MODELS},
        "evaluate-no-search": ("evaluate", "demo", "--no-search", "-m", "infinite-ae", "-m", "mf"),
        "evaluate-search": ("evaluate", LOG, "--search", "1000", "-m", "ease"),
        "evaluate-textbook": ("evaluate", "demo", "--protocol", "textbook", "--sample-users", "300"),
        "evaluate-train-on": ("evaluate", LOG, "--train-on", DISCRETE, "-m", "infinite-ae", "-m", "ease"),
        "evaluate-prepared": ("evaluate", PREPARED, "-m", "infinite-ae"),
        **{f"fit-{name}": ("fit", LOG, "--model", name, *OUT) for name in MODELS},
        "fit-nystrom": ("fit", "demo", "--centres", "200", *OUT),
        "fit-on-summary": ("fit", LOG, "--centres", DISCRETE, *OUT),
        "fit-partitioned": ("fit", PREPARED, "--centres", "8", *OUT),
        "distill-discrete": SHORT,
        "distill-soft": (*SHORT, "--mode", "soft"),
        "distill-published": (*SHORT, "--mode", "published"),
        "distill-own-targets": (*SHORT, "--targets", "own", "--start", "users"),
        "distill-batches": (*SHORT, "--set", "batch=300"),
        "distill-set-aside": (*SHORT, "--set-aside", "0.1"),
        "distill-target": ("distill", LOG, "--target", "0.5", *produce.STEPS, *OUT),
        "distill-continue": ("distill", "--continue", DISCRETE, LOG, *produce.STEPS, *OUT),
        "distill-card": ("distill", LOG, "--users", "4", "--steps", "4", *OUT),
        "distill-epsilon": (*SHORT, "--epsilon", "8", "--delta", "1e-6"),
        **{
            f"sample-{name}": ("sample", LOG, "--strategy", name, "--users", "6", *OUT)
            for name in STRATEGIES
        },
        "audit": ("audit", DISCRETE, "--against", LOG),
        "prepare": ("datasets", "prepare", LOG, *OUT),
        "generate": ("datasets", "generate", "--interactions", "9000", "--out", "made.parquet"),
        "export": ("export", DISCRETE, "--format", "recbole", *OUT),
        "reproduce-depth": (*quick, "depth"),
        "reproduce-statistics": (*quick, "statistics"),
        "reproduce-cold": (*quick, "cold", "--only", "infinite-ae", "--only", "ease"),
        "reproduce-continual": (*quick, "continual", "--only", "individual"),
        "reproduce-deanonymise-noise": (*quick, "deanonymise-noise", "--only", "user-rns"),
    }  # fmt: skip


def answer(name: str, words: Sequence[str]) -> dict[str, Any]:
    """The document of a command line, and the files that it made."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(produce.SAVED, folder / "saved")
        shutil.copy(produce.HERE / LOG, folder)
        given = set(folder.rglob("*"))
        code = (KNOWN_NOISE if name == "distill-epsilon" else "") + START
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--json"], cwd=folder, capture_output=True, text=True
        )
        made = sorted(path for path in set(folder.rglob("*")) - given if path.is_file())
        return {
            "code": done.returncode,
            "document": steady(json.loads(done.stdout)),
            "files": {str(path.relative_to(folder)): digest(path) for path in made},
        }


def digest(path: Path) -> Any:
    """The SHA-256 of a file; of JSON, which may tell when it was made, all that does not."""
    if path.suffix == ".json":
        return steady(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [steady(json.loads(line)) for line in path.read_text().splitlines()]
    return "unsteady" if path.suffix in UNSTEADY else hashlib.sha256(path.read_bytes()).hexdigest()


def steady(document: Any) -> Any:
    """A document without times, and without sizes and hashes of files that hold times."""
    if isinstance(document, dict):
        kept = produce.lasting(document).items()
        return {name: steady(value) for name, value in kept if name not in ("bytes", "files", "seal")}
    return [steady(value) for value in document] if isinstance(document, list) else document


def pages() -> dict[str, Any]:
    """Which pages, made again from all committed records, differ from the committed ones."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "results"
        produce.rebuilt(folder, list(produce.EXPERIMENTS))
        found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        other = [
            str(one) for one in found if (folder / one).read_bytes() != (produce.RESULTS / one).read_bytes()
        ]
        return {"pages": len(found), "different": sorted(other)}


def everything(words: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Answers by name, of those whose name holds one of the words."""
    for name, line in command_lines().items():
        if not words or any(word in name for word in words):
            yield name, answer(name, line)
    if not words or "pages" in words:
        yield "pages", pages()


def main(verb: str, directory: str, *words: str) -> int:
    folder, different = Path(directory), 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in everything(words):
        text, path = json.dumps(found, indent=1, ensure_ascii=False) + "\n", folder / f"{name}.json"
        if verb == "write":
            path.write_text(text)
            sys.stderr.write(f"{name}: exit code {found.get('code', 0)}\n")
        elif path.read_text() == text:
            sys.stderr.write(f"{name}: the same\n")
        else:
            different += 1
            path.with_suffix(".new").write_text(text)
            sys.stderr.write(f"{name}: DIFFERENT, see diff {path} {path.with_suffix('.new')}\n")
    return different > 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
