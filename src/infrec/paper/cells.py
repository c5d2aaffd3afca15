"""A cell: one thing to measure, frozen, with a hash that names its record.

A cell says what a model is fitted on (`Data`), which models with which settings (`Fit`), and what is measured
beyond the six metrics. Nothing else decides its result, so two experiments that need the same cell share it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

FULL, DISTILLED = "full", "distill-cf"
PERIODS = "periods"  # no split: the log cut by time, a model carried through it
GENERATED = "ar-cf"
HEURISTICS = ("interaction-rns", "user-rns", "head-user", "svp-cf")
LEARNT = (DISTILLED, GENERATED)  # sources whose users are made step by step
DEFAULT_MODE = "discrete"
PUBLISHED_KIND = f"{DISTILLED}-published"  # the name of a summary of the paper's own kind
TARGETS = "own"  # as in the paper: a summary is trained on what users have, not on what others predict
# Models whose fit has no chance in it: one seed says everything.
CLOSED_FORM = ("infinite-ae", "infinite-ae-plus", "ease", "poprec", "bias-only")
# Those of them that choose their one setting on validation every time; others have committed settings.
CHOSEN_ANEW = ("infinite-ae", "ease", "poprec")
Pairs = tuple[tuple[str, Any], ...]


def pairs(**values: Any) -> Pairs:
    """Settings as a frozen value: `pairs(mode="soft", steps=40)`."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value

    return tuple(sorted((name, frozen(value)) for name, value in values.items()))


@dataclass(frozen=True)
class Data:
    """The data that a model is fitted on: the train part, with noise, then made smaller.

    source: `full`, a sampler's strategy, `distill-cf`, or `periods`. users: how many; None for all. noise:
    percent of the items that are flipped for each user before sampling. settings: of the distillation, or
    of the periods.
    """

    source: str = FULL
    users: int | None = None
    noise: float = 0.0
    settings: Pairs = ()

    @property
    def mode(self) -> str:
        """The mode of a distillation."""
        return str(dict(self.settings).get("mode", DEFAULT_MODE))

    @property
    def name(self) -> str:
        """The source with the mode that was used, unless it is the usual one: `distill-cf-soft`.

        Of periods, the strategy by which a model is carried through them.
        """
        if self.source == PERIODS:
            return str(dict(self.settings)["strategy"])
        usual = self.source != DISTILLED or self.mode == DEFAULT_MODE
        return self.source if usual else f"{DISTILLED}-{self.mode}"


@dataclass(frozen=True)
class Fit:
    """A model. settings: fixed; those still open are chosen on validation, from `space` where it names them.

    search: seconds for searching all of the model's settings on validation.
    """

    model: str
    settings: Pairs = ()
    space: Pairs = ()
    search: float | None = None


@dataclass(frozen=True)
class Cell:
    """One frozen configuration. beyond: what is measured apart from the six metrics.

    `bytes`: of what the models are fitted on, as it is saved.
    `coldness`: the metrics by how cold users and items are. `statistics`: of the data; nothing is fitted.
    `leakage`: what attacks find; the release is made without a tenth of the users, who are the control.
    `noisy histories`: once more with the noise in the histories that models are asked with.
    label: tells apart what an experiment varies. quick: fewer steps or epochs than the real thing.
    quick_look: a quick look asked for it; that is no part of the configuration, but the record tells.
    attack: what an attacker knows of the users; then the data is a release, and the record says who is found.
    """

    dataset: str
    seed: int
    data: Data = Data()
    fits: tuple[Fit, ...] = ()
    beyond: tuple[str, ...] = ()
    label: str = ""
    quick: bool = False
    attack: Pairs = ()
    quick_look: bool = field(default=False, compare=False)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """The cell as JSON holds it."""
        attack = {"attack": dict(self.attack)} if self.attack else {}  # only there: others keep their hash
        return {
            "dataset": self.dataset,
            "seed": self.seed,
            "data": {**vars(self.data), "settings": dict(self.data.settings)},
            "fits": [
                {**vars(fit), "settings": dict(fit.settings), "space": dict(fit.space)} for fit in self.fits
            ],
            "beyond": list(self.beyond),
            "label": self.label,
            "quick": self.quick,
            **attack,
        }

    @cached_property
    def hash(self) -> str:
        """Names the cell in records: the same configuration, the same hash, on every machine."""
        return fingerprint(self.configuration)

    @property
    def tags(self) -> set[str]:
        """The words by which `--only` can name this cell."""
        words = {self.data.source, self.data.name, *(fit.model for fit in self.fits), self.label}
        if self.data.users is not None:
            words.add(str(self.data.users))
        if self.data.noise or self.data.source == FULL:
            words.add(f"{self.data.noise:g}%")
        return words - {""}

    @property
    def learnt(self) -> bool:
        """Whether something is learnt step by step: what `--quick` makes shorter."""
        return self.data.source in LEARNT or any(fit.model not in CLOSED_FORM for fit in self.fits)

    @property
    def by_chance(self) -> bool:
        """Whether another seed could give another result."""
        return self.learnt or self.data.noise > 0 or self.data.source not in (FULL, "head-user")

    @property
    def words(self) -> str:
        """For a progress bar."""
        models = (
            f"{len(self.fits)} models" if len(self.fits) > 2 else "+".join(fit.model for fit in self.fits)
        )
        noise = f"{self.data.noise:g} % noise" if self.data.noise else ""
        parts = (self.dataset, models, self.data.name, str(self.data.users or ""), self.label, noise)
        return " ".join(filter(None, parts))


def fingerprint(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
