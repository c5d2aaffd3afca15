"""The shape of the source tree in figures: how much there is, how far a command walks, how it hangs together.

    make shape                       the table
    python tools/shape.py --files    also the files of each journey, in the order of their first visit
    python tools/shape.py --callers  also the functions of one caller, and who calls

Every figure is measured, from the syntax trees of `src/infrec` or by running a command:

lines, files      lines of all `.py` files, as `wc -l` counts them.
journey           files of which a function runs during a command, after imports; the lines of these files;
                  how often the room changes when the files are listed in the order of their first visit.
                  A room is a folder. Left out are files of the ground floor (those in no folder), and
                  `__init__.py`, which hands names on. A second row has the ground floor as one more room.
                  Data is an invented ml-1m of 60 users; `distill` makes its card, `fit` is one process.
one caller        functions at the top of a module that are named once in the whole tree, in another module.
cycles            groups of modules that import each other in a circle (strongly connected components), lazy
                  imports counted, those under TYPE_CHECKING not.
longest function  lines from `def` to its end.
model classes     `isinstance` and `issubclass` with a class of the room `models`, in other rooms.
files to touch    for a model, a sampler, a dataset: files that name an existing one, by a string or its
                  class, and the file called like it; least and most over those listed below. Experiments are
                  left out: they choose what they compare; and imports for type checkers alone. For a kernel:
                  files that import the module of the tangent kernel.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from source_tree import Tree

PACKAGE = Path(__file__).parents[1] / "src" / "infrec"
KERNEL = "kernels.ntk"
MODELS = {
    "infinite-ae-plus": "InfiniteAEPlus", "ease": "EASE", "poprec": "PopRec", "bias-only": "BiasOnly",
    "mf": "MF", "neumf": "NeuMF", "lightgcn": "LightGCN", "mvae": "MVAE",
}  # fmt: skip
SAMPLERS = ("interaction-rns", "user-rns", "head-user", "svp-cf", "herding", "ar-cf")
DATASETS = ("magazine", "douban", "netflix")

# Written beside a command as sitecustomize.py, so that the processes it starts are followed too.
TRACER = """
import os, sys, threading
package, visits = os.environ["SHAPE_PACKAGE"], os.environ["SHAPE_VISITS"]
seen = set()
def importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(package):
            return True
        frame = frame.f_back
    return False
def trace(frame, event, argument):
    path = frame.f_code.co_filename
    if path not in seen and path.startswith(package) and not importing(frame):
        seen.add(path)
        with open(visits, "a") as file:
            file.write(path + "\\n")
sys.settrace(trace)
threading.settrace(trace)
"""
START = "from infrec.cli import main; import sys; main(sys.argv[1:])"


# ---- journeys ---------------------------------------------------------------------------------------------
def journeys(folder: Path) -> dict[str, list[str]]:
    """The files that commands visit, relative to the package, in the order of their first visit."""
    small_data(folder / "data")
    (folder / "sitecustomize.py").write_text(TRACER)
    run(folder, "datasets", "prepare", "ml-1m", "--out", "prepared")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    alone = ("--processes", "1", "--index", "0", "--coordinator", place)
    short = ("--users", "8", "--steps", "4", "--set", "validate_every=2")
    return {
        "evaluate ml-1m --model infinite-ae": run(folder, "evaluate", "ml-1m", "--model", "infinite-ae"),
        "distill ml-1m": run(folder, "distill", "ml-1m", *short, "--out", "summary"),
        "fit --distributed": run(
            folder, "fit", "prepared", "--distributed", *alone, "--centres", "8", "--out", "model"
        ),
    }


def small_data(folder: Path) -> None:
    """A file with the columns of ml-1m: 60 users of two tastes, 12 of 40 items each, split as there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(0)
    rows = []
    for user in range(60):
        for at, item in enumerate(chance.sample(range(user % 2, 40, 2), 12)):
            part = "train" if at < 9 else "val" if at == 9 else "test"
            rows.append({"user": user, "item": item, "rating": 4, "time_rank": at, "split": part})
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "ml-1m.parquet")


def run(folder: Path, *words: str) -> list[str]:
    """Run a command line under the tracer; the files it visited."""
    visits = folder / "visits"
    visits.write_text("")
    paths = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    own = {"SHAPE_PACKAGE": f"{PACKAGE}{os.sep}", "SHAPE_VISITS": str(visits)}
    environment = {**os.environ, **own, "PYTHONPATH": paths, "INFREC_DATA": str(folder / "data")}
    done = subprocess.run(
        [sys.executable, "-c", START, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"infrec {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    found = [str(Path(line).relative_to(PACKAGE)) for line in visits.read_text().splitlines()]
    return [path for path in dict.fromkeys(found) if Path(path).name != "__init__.py"]


def measure(files: Sequence[str], lines: Mapping[str, int]) -> str:
    """Files, their lines, and changes of room."""
    rooms = [path.partition("/")[0] if "/" in path else "" for path in files]
    changes = sum(one != other for one, other in pairwise(rooms))
    return f"{len(files)} / {sum(lines[path] for path in files):,} / {changes}"


# ---- the table --------------------------------------------------------------------------------------------
def table(tree: Tree, visited: Mapping[str, list[str]]) -> list[tuple[str, str, str]]:
    """Rows of the table: the quantity, its figure, and the goal."""
    by_path = {str(path.relative_to(tree.folder)): tree.lines[name] for name, path in tree.paths.items()}
    rows = [("lines in src / files", f"{sum(tree.lines.values()):,} / {len(tree.paths)}", "≤ 29,000 / ≤ 180")]
    goals = ("≤ 30 / ≤ 4,200 / ≤ 9", "≤ 40 / ≤ 6,500 / ≤ 14", "≤ 24 / ≤ 4,000 / ≤ 9")
    for (command, files), goal in zip(visited.items(), goals, strict=True):
        in_rooms = [path for path in files if "/" in path]
        rows.append((f"files / lines / room changes of {command}", measure(in_rooms, by_path), goal))
        rows.append(("   with the ground floor", measure(files, by_path), ""))
    length, path = tree.longest_function()
    touched = [
        spread([tree.naming({name, kind}) for name, kind in MODELS.items()]),
        str(len(tree.importing(KERNEL))),
        spread([tree.naming({name}) for name in SAMPLERS]),
        spread([tree.naming({name}) for name in DATASETS]),
    ]
    return [
        *rows,
        ("functions of one caller in another module", str(len(tree.one_caller())), "≤ 90"),
        ("import cycles, lazy imports counted", str(len(tree.cycles())), "0"),
        ("longest function", f"{length} ({path})", "≤ 80"),
        (
            "files to touch: model / kernel / sampler / dataset",
            " / ".join(touched),
            "2 / 1 + a setting / 1 / 1",
        ),
        ("isinstance on model classes outside models", str(len(tree.tests_of_model_classes())), "0"),
    ]


def spread(groups: Sequence[Sequence[str]]) -> str:
    """The least and the most of these numbers of files."""
    least, most = min(map(len, groups)), max(map(len, groups))
    return str(least) if least == most else f"{least}–{most}"


def main() -> None:
    tree = Tree(PACKAGE)
    with tempfile.TemporaryDirectory() as place:
        visited = journeys(Path(place))
    rows = [("", "measured", "goal"), *table(tree, visited)]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    for row in rows:
        sys.stdout.write(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        )
    if "--callers" in sys.argv:
        sys.stdout.write("".join(f"\n  {name} ← {caller}" for name, caller in tree.one_caller().items()))
        sys.stdout.write("\n")
    if "--files" in sys.argv:
        for command, files in visited.items():
            sys.stdout.write(f"\n{command}\n" + "".join(f"  {path}\n" for path in files))


if __name__ == "__main__":
    main()
