"""Settings that a long search found, kept as one small JSON file per dataset and model, with its record.

The project's own lie in `results/selected`, found on a GPU; `infrec evaluate --search --save-selection`
writes such files, with all that is needed to judge a search and to do it again. Nothing needs them: without a
file, a model has its shipped settings.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infrec import __version__, drafts, machine
from infrec.errors import ArtifactError, DataError

FOLDER = Path("results/selected")


@dataclass(frozen=True)
class Selected:
    """Settings chosen for a model on a dataset, and how they were found.

    settings: every setting of the model. score: on validation, in percent; `search["criterion"]` says what.
    search: seed, seconds, how many of how many were tried, and each candidate: settings, rungs, why dropped.
    made: when, with which command, on which machine, with which versions.
    test: figures of the chosen settings on the test part, which the search did not see.
    """

    dataset: str
    model: str
    settings: Mapping[str, Any]
    score: float | None
    search: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)
    test: Mapping[str, Any] = field(default_factory=dict)


def path_of(dataset: str, model: str, folder: str | os.PathLike[str] = FOLDER) -> Path:
    """Where the selection of a dataset (a name, or a file's) and a model lies."""
    return Path(folder) / f"{Path(dataset).stem}.{model}.json"


def read(dataset: str, model: str, folder: str | os.PathLike[str] = FOLDER) -> Selected | None:
    """The selection on record, or None where there is none."""
    path = path_of(dataset, model, folder)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise ArtifactError(f"{path} cannot be read ({failure}); remove it or search again.") from failure
    selection = None
    with suppress(ValueError, TypeError):
        selection = Selected(**json.loads(text))
    if selection is None or selection.model != model or not isinstance(selection.settings, dict):
        raise ArtifactError(
            f"{path} is no selection of settings for {model}; remove it, or write it again with "
            f"infrec evaluate {dataset} --model {model} --search SECONDS --save-selection {folder}."
        )
    return selection


def write(selected: Selected, folder: str | os.PathLike[str] = FOLDER) -> Path:
    """Put a selection in its place, whole or not at all."""
    path = path_of(selected.dataset, selected.model, folder)
    try:
        drafts.write_text(path, _layout(asdict(selected)))
    except OSError as failure:
        raise DataError(f"{path} cannot be written ({failure}); give another folder.") from failure
    return path


def _layout(document: Mapping[str, Any]) -> str:
    """JSON with a line per candidate: short, and a difference between two searches can be read."""
    candidates = document["search"].get("candidates", [])
    search = {**document["search"], "candidates": "@"} if candidates else document["search"]
    text = json.dumps({**document, "search": search}, indent=1, ensure_ascii=False, allow_nan=False)
    lines = ",\n".join(f"   {json.dumps(one, ensure_ascii=False, allow_nan=False)}" for one in candidates)
    return text.replace('"candidates": "@"', f'"candidates": [\n{lines}\n  ]') + "\n"


def save_search(document: Mapping[str, Any], folder: Path, settings: Sequence[str], seed: int) -> Path:
    """Write the selection of an evaluation's document; returns its file."""
    dataset, model, search = document["dataset"], document["model"], document["search"]
    selection = document["selected"].items()
    scores = [
        one["score"]
        for one in document["candidates"]
        if one["score"] is not None and one["settings"].items() <= selection  # not always the highest
    ]
    words = ["infrec", "evaluate", dataset, "--model", model]
    words += [word for pair in settings for word in ("--set", pair)]
    words += ["--search", f"{search['seconds']:g}", "--seed", str(seed), "--save-selection", str(folder)]
    return write(
        Selected(
            dataset=Path(dataset).stem,
            model=model,
            settings=document["selected"],
            score=_rounded(max(scores, default=None)),
            search={**_rounded(search), "candidates": _rounded(document["candidates"])},
            made={
                "date": datetime.now(UTC).strftime("%Y-%m-%d"),
                "command": shlex.join(words),
                "device": machine.device(),
                "machine": f"{platform.system()} {platform.machine()}, {machine.cores()} cores",
                "versions": _versions(),
            },
            test={"protocol": document["protocol"], "metrics": _rounded(document["metrics"])},
        ),
        folder,
    )


def _versions() -> dict[str, str]:
    """Of what is used, also where it was not installed as a package."""
    versions = {name: version for name, version in machine.versions().items() if version is not None}
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in ("optax", "jax")}
    return {"infrec": __version__, **versions, **{name: text for name, text in loaded.items() if text}}


def _rounded(value: Any) -> Any:
    """Scores and seconds as they are read: more digits say nothing and make the files long."""
    if isinstance(value, Mapping):
        return {key: inner if key == "settings" else _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value
