"""`--save-selection`: what a search found, with all that is needed to judge it and to do it again."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infrec import __version__, machine


def save(document: Mapping[str, Any], folder: Path, settings: Sequence[str], seed: int) -> Path:
    """Write the selection of an evaluation's document; returns its file."""
    from infrec.search.selected import Selected, write

    dataset, model, search = document["dataset"], document["model"], document["search"]
    chosen = document["selected"].items()
    scores = [
        one["score"]
        for one in document["candidates"]
        if one["score"] is not None and one["settings"].items() <= chosen  # not always the highest
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
    found = {name: version for name, version in machine.versions().items() if version is not None}
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in ("optax", "jax")}
    return {"infrec": __version__, **found, **{name: text for name, text in loaded.items() if text}}


def _rounded(value: Any) -> Any:
    """Scores and seconds as they are read: more digits say nothing and make the files long."""
    if isinstance(value, Mapping):
        return {key: inner if key == "settings" else _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value
