"""Golden documents: of the command line, of the service, of everything in saved/; cells and pages of records.

Everything goes through the command line and the public API, so that files may move and names may change.
The names of the package that these do not reach are imported below, and nowhere else in this folder.

    python -m tests.goldens.produce          write the documents beside this file again
    python -m tests.goldens.produce saved    also fit and save again what lies in saved/

The second is for a format that is new on purpose. Otherwise saved/ stays as an older version wrote it: that
it still loads is what is tested.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main

from infrec import Summary, load
from infrec.cli import main
from infrec.cli.app import app as command_line  # the commands and their options
from infrec.paper import NAMES
from infrec.paper import get as experiment
from infrec.paper.experiment import SEEDS, Plan
from infrec.paper.site import build as build_pages
from infrec.search.committed import read as committed_settings
from tests.serve.conftest import Running

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
EXPERIMENTS = tuple(name for name in NAMES if (RESULTS / name / "records.jsonl").exists())
LOG, SAVED = "log.csv", HERE / "saved"
# What differs from run to run, or from machine to machine.
PASSING = {"seconds", "ms_per_step", "spent", "peak_rss_mb", "device", "versions", "finished", "why"}
# How each model in saved/ was fitted on log.csv. The name of a directory says which model it is.
MODELS = {
    "infinite-ae": ("--set", "solver=exact"),
    "infinite-ae-plus": ("--set", "solver=exact"),
    "ease": (),
    "poprec": (),
    "bias-only": (),
    "mf": ("--set", "epochs=2", "--set", "latent=2"),
    "lightgcn": ("--set", "epochs=2", "--set", "latent=2"),
    "neumf": ("--set", "epochs=2", "--set", "latent=2", "--set", "layers=1"),
    "mvae": ("--set", "epochs=2", "--set", "latent=2", "--set", "hidden=8"),
    "infinite-ae.nystrom": ("--centres", "8"),
    "infinite-ae.summary": ("--centres", "saved/discrete"),
}
STEPS = ("--set", "validate_every=2", "--steps", "4", "--no-card")
SUMMARIES = {
    "discrete": (
        "distill",
        LOG,
        "--mode",
        "discrete",
        "--users",
        "4",
        "--per-user",
        "6",
        "--set-aside",
        "0.2",
        *STEPS,
    ),
    "soft": ("distill", LOG, "--users", "4", "--mode", "soft", *STEPS),
    "published": ("distill", LOG, "--users", "4", "--mode", "published", *STEPS),
    "sample": ("sample", LOG, "--strategy", "user-rns", "--users", "6"),
}
HISTORY = ["001", "003", "005"]  # of somebody whom no model was fitted on
ASKED = ["u00", "u01", "u07"]


def infrec(*words: object, code: int = 0) -> dict[str, Any]:
    """The JSON document of a command line that is run in this process, in this folder."""
    text = io.StringIO()
    with contextlib.chdir(HERE), contextlib.redirect_stdout(text):
        try:
            main([*map(str, words), "--json"])
        except SystemExit as end:
            assert end.code == code, (words, text.getvalue())
    return json.loads(text.getvalue())


def lasting(value: Any) -> Any:
    """A document without times, memory and machine."""
    if isinstance(value, dict):
        return {name: lasting(inner) for name, inner in value.items() if name not in PASSING}
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


# ---- the command line and the service ---------------------------------------------------------------------
def commands() -> dict[str, list[str]]:
    """The options and arguments of every command, in the order of `--help`."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
        names = ["/".join([*each.opts, *each.secondary_opts]) for each in command.params]
        yield name, names
        for inner, each in getattr(command, "commands", {}).items():
            yield from walk(each, f"{name} {inner}")

    return dict(walk(typer.main.get_command(command_line), "infrec"))


def service(server: Running) -> dict[str, Any]:
    """Description, models and a list of a service of saved/infinite-ae."""
    return {
        "openapi": server.get("/openapi.json").json,
        "recommend": server.recommend(history=HISTORY, k=3).json,
        "models": lasting(server.get("/v1/models").json),
    }


def evaluated() -> dict[str, Any]:
    """`infrec evaluate` of the models that take a moment: settings chosen, then measured."""
    words = [word for name in ("infinite-ae", "ease", "poprec", "bias-only") for word in ("--model", name)]
    found = {one["model"]: one for one in infrec("evaluate", "demo", *words)["results"]}
    found["infinite-ae-plus"] = infrec("evaluate", LOG, "--model", "infinite-ae-plus")
    return lasting(found)


# ---- what was saved ---------------------------------------------------------------------------------------
def save_all(folder: Path) -> None:
    """Everything in saved/, with the formats of the code as it is."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, words in SUMMARIES.items():
        infrec(*words, "--out", folder / name)
    infrec("datasets", "prepare", LOG, "--out", folder / "prepared")
    for name, words in MODELS.items():
        model = name.partition(".")[0]
        infrec("fit", LOG, "--model", model, *words, "--out", folder / name)
    infrec("fit", folder / "prepared", "--centres", "8", "--out", folder / "infinite-ae.partitioned")


def answers(path: Path) -> dict[str, Any]:
    """Answers of a saved model: scores of a few users, their lists, an unknown user's list, similar items."""
    model, log = load(path), load(SAVED / "infinite-ae").log
    rows = log.matrix[log.users.positions(ASKED)]
    lists = [model.recommend(histories=[HISTORY], k=4)]
    if (model.log.users.positions(ASKED) >= 0).all():  # not where it was fitted with synthetic users
        lists.append(model.recommend(ASKED, k=4))
    return {
        "selected": dict(model.selected),
        "scores": model.score(rows, users=ASKED if model.knows_users else None).tolist(),
        "lists": [rows.table.select(["user", "item", "source", "title"]).to_pydict() for rows in lists],
        "similar": model.similar("004", k=3)["item"],
    }


def contents(path: Path) -> dict[str, Any]:
    """A saved summary or sample."""
    summary = Summary.load(path)
    table = summary.to_table().select(["user", "item", "weight"])
    return {
        "kind": summary.kind,
        "about": lasting(dict(summary.about)),
        "interactions": table.to_pydict(),
    }


def saved() -> dict[str, Any]:
    """The answers of everything in saved/."""
    models = {path.name: answers(path) for path in sorted(SAVED.glob("*")) if _is_model(path)}
    stats = infrec("datasets", "stats", SAVED / "prepared")
    return {
        "models": models,
        "summaries": {name: contents(SAVED / name) for name in SUMMARIES},
        "prepared": {name: value for name, value in lasting(stats).items() if name != "dataset"},
    }


def _is_model(path: Path) -> bool:
    return path.name.partition(".")[0] in MODELS


# ---- records and pages ------------------------------------------------------------------------------------
USERS = {
    "ml-1m": 6040,
    "magazine": 3025,
    "douban-book": 1870,
    "douban": 2666,
    "netflix-sample": 32450,
    "lastfm-2k": 1883,
    "gowalla": 29858,
    "demo": 1000,
}


def records(name: str) -> list[dict[str, Any]]:
    """The committed records of an experiment."""
    lines = (RESULTS / name / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def grid(name: str, found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The grid of an experiment, as it would be run now for what its records hold: configurations by hash."""
    datasets = sorted({one["configuration"]["dataset"] for one in found})
    seeds = {one["seed"] for one in found}
    plan = Plan(
        tuple(datasets),
        tuple(seed for seed in SEEDS if seed in seeds),
        USERS,
        selected=_settings,
    )
    with patch("infrec.paper.continual.has_times", lambda dataset: True):  # whatever lies on this machine
        return {cell.hash: cell.configuration for cell in experiment(name).cells(plan)}


def grids() -> dict[str, dict[str, int]]:
    """How many records of each experiment are of today's grid, how many of earlier ones, what is missing."""
    out = {}
    for name in EXPERIMENTS:
        found = records(name)
        today, there = set(grid(name, found)), {one["cell"] for one in found}
        out[name] = {
            "of today's grid": len(today & there),
            "of earlier grids": len(there - today),
            "to be measured": len(today - there),
        }
    return out


def _settings(dataset: str, model: str) -> dict[str, object]:
    found = committed_settings(dataset, model, RESULTS / "selected")
    return {} if found is None else {key: value for key, value in found.settings.items() if key != "seed"}


def rebuilt(folder: Path, names: list[str]) -> None:
    """Pages of these experiments, made from the committed records alone, and the index of all."""
    for name in EXPERIMENTS:
        (folder / name).mkdir(parents=True)
        shutil.copy(RESULTS / name / "records.jsonl", folder / name)
    build_pages(folder, names)


# ---- files ------------------------------------------------------------------------------------------------
def read(name: str) -> Any:
    """A golden document."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, document: Any) -> None:
    """Lists without inner ones on one line each."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([^][{}]+?)\s+]", lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]", text)
    (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def produce(again: bool) -> None:
    """Write every golden document; again: also what is in saved/."""
    from tests.serve.conftest import serving

    if again:
        save_all(SAVED)
    write("commands", commands())
    write("evaluate", evaluated())
    write("saved", saved())
    write("grids", grids())
    log = HERE / "server.log"
    with serving(log, SAVED / "infinite-ae") as server:
        write("service", service(server))
    log.unlink()


if __name__ == "__main__":
    produce(again=sys.argv[1:] == ["saved"])
