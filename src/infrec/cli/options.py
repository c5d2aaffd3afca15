"""Options that several commands share, written once, and what they lead to: a log, a model."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from infrec.models import Candidate, Recommender


class Protocol(StrEnum):
    paper_code = "paper-code"
    textbook = "textbook"


class OnUnknown(StrEnum):
    popular = "popular"
    skip = "skip"
    error = "error"


_DATA = "Data"
_MODEL = "Model"
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (CSV, TSV, .dat, Parquet; also gzipped), a directory of Parquet, or a name from "
        "[bold]infrec datasets list[/].",
        show_default=False,
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, help="Seed of everything random.", rich_help_panel=_DATA),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print exactly one JSON document; everything else goes to standard error."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Fix a setting of the model, such as reg=5; repeatable.",
        rich_help_panel=_MODEL,
    ),
]
MODELS = "infinite-ae, infinite-ae-plus, ease, poprec, bias-only, mf, neumf, lightgcn, mvae"
ModelName = Annotated[
    str,
    typer.Option("--model", "-m", metavar="NAME", help=f"One of {MODELS}.", rich_help_panel=_MODEL),
]


def check_model(name: str) -> str:
    """The name of a model, or a usage error that names the nearest ones."""
    from infrec.models import NAMES

    if name not in NAMES:
        raise typer.BadParameter(unknown("model", name, NAMES), param_hint="--model")
    return name


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """There is no such thing, but there is this one."""
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"there is no {what} {name!r}.{hint} There is: {', '.join(known)}."


def open_model(name: str, pairs: Sequence[str] | None, seed: int) -> Recommender:
    """The unfitted model with what `--set` fixes, and with the command's seed where it has one."""
    from infrec import models

    default = models.create(check_model(name))
    seeded = {"seed": seed} if hasattr(default.settings, "seed") else {}
    return models.create(name, **(seeded | default.settings_type.parse(pairs or (), name)))


def candidates(tried: Iterable[Candidate]) -> list[dict[str, Any]]:
    """The settings that were tried, as JSON has them."""
    return [
        {"settings": dict(one.settings), "score": one.score, "error": one.error}
        | ({"rungs": list(one.rungs), "dropped": one.dropped, "seconds": one.seconds} if one.rungs else {})
        for one in tried
    ]


def search_space(model: Recommender, fixed: Sequence[str]) -> dict[str, Sequence[Any]] | None:
    """What `--search` tries of a model trained by epochs: its space without what `--set` fixes."""
    from infrec.models.trained import Trained

    if not isinstance(model, Trained):
        return None  # its open settings are "auto"
    return {name: values for name, values in model.search_space.items() if name not in fixed}
