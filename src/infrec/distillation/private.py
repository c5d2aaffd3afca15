"""Distillation with user-level differential privacy, (ε, δ).

real users → noisy sums (`dp_sums.py`, the only thing that costs ε and δ) → invented users (`dp_sums.py`)
→ the usual distillation, whose start, row sizes, λ, validation and early stopping only ever see invented
users. docs/guarantee.md has the proof.

The seed of the noise comes from the operating system and is written nowhere that is passed on: with it
anybody could take the noise off again. What is kept in the run directory is what a resumed run needs to go
on without spending more; it is deleted with the directory.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec import artifacts
from infrec.checkpoints import fingerprint
from infrec.data import Interactions, Vocabulary
from infrec.data.arrow import from_numpy, to_numpy
from infrec.data.interactions import canonical
from infrec.data.parsing import CANONICAL_INTEGER
from infrec.data.summary import Summary
from infrec.distillation import dp_accounting
from infrec.distillation.dp_sums import BINS, Population, Release, Sums, release, shortened
from infrec.distillation.settings import given_only
from infrec.errors import ConfigError, DataError
from infrec.progress import Progress, silent
from infrec.splits import Split

FEWEST, MOST = 1000, 10_000  # invented users
INVENTED_STEPS = 100  # of distilling them: the noise, not the number of steps, decides how good it gets
KIND = "noisy sums"
LEAST_NOISE = 0.1  # an ε near 100
SECRET_BITS = 128
VOIDS = {  # settings that would let real users in past the noise, and why
    "target": "a target is judged on the real users",
    "previous": "the summary that is continued may come from real users without noise",
    "on_validate": "a judge of one's own may look at the real users",
    "search": "a search asks the real users for its grid",
    "percent": "a share of the log's interactions tells how many there are",
}


def distill(
    data: Split | Interactions,
    *,
    delta: float | None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    catalogue: Vocabulary | None = None,
    catalogue_info: pa.Table | None = None,
    users: int | None = None,
    seed: int | None = None,
    run_directory: Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **settings: Any,
) -> Summary:
    """A summary with (ε, δ). epsilon: needs dp-accounting. noise_multiplier: instead of it, runs anywhere.

    data: the log itself, never a split of it: all its interactions are used or, where it has a column
    `split`, its train part. Weights count as 1.
    catalogue: the public list of items; without it, which items exist is itself released under the guarantee.
    catalogue_info: what is publicly known of them, such as titles; the log's are never taken.
    Other settings are those of `distill`, and act on invented users alone.
    """
    import jax

    settings = given_only(settings)
    if jax.process_count() > 1:
        raise ConfigError(
            f"{jax.process_count()} processes work together; expected one: each would draw and spend its own "
            "noise."
        )
    if isinstance(data, Split):
        raise ConfigError(
            "a split was given beside ε and δ, and its parts may depend on all users at once; give the log "
            "itself: all its interactions are used, or the train part where it has a column `split`."
        )
    refuse(settings)
    dp_accounting.check(epsilon, delta)
    assert delta is not None
    if (epsilon is None) == (noise_multiplier is None):
        raise ConfigError("expected exactly one of epsilon and noise_multiplier.")
    public = catalogue is not None
    if epsilon is not None:
        noise_multiplier = dp_accounting.multiplier_for(epsilon, delta, public_items=public)
    sigma = float(noise_multiplier or 0.0)
    if not (np.isfinite(sigma) and sigma >= LEAST_NOISE):
        raise ConfigError(
            f"noise_multiplier is {sigma:g}; expected a finite number of at least {LEAST_NOISE:g}: less "
            "noise promises nothing."
        )
    place = None if run_directory is None else Path(run_directory)
    settings |= {"users": users, "seed": 42 if seed is None else seed}
    told = _released(user_sums(data, catalogue), sigma, delta, public, place, resume)
    over = None if catalogue is None else _nobody(catalogue, catalogue_info)
    made = _from_invented(told, data, over, settings, place, resume, progress)
    promise = dp_accounting.statement(sigma, delta, epsilon=epsilon, public_items=public)
    return replace(made, about={**made.about, "guarantee": promise})


def refuse(settings: dict[str, Any]) -> None:
    """Refuse every setting that would void the guarantee."""
    for name, why in VOIDS.items():
        if settings.get(name):
            raise ConfigError(f"{name} cannot stand beside ε and δ: {why}, which voids them; leave it out.")
    start = settings.get("start") or getattr(settings.get("config"), "start", None)
    if start not in (None, "popularity"):
        raise ConfigError(f"start is {start!r}, rows of real people, which voids ε and δ; leave it out.")


# ---- real users --------------------------------------------------------------------------------------------
def user_sums(log: Interactions, catalogue: Vocabulary | None) -> Sums:
    """All that is ever computed from real users: what each adds depends on their own id and rows alone.

    Columns are those of the catalogue or, without one, of the log.
    """
    parts = {"train": log.matrix} if log.parts is None else log.parts
    if "train" not in parts:
        raise DataError("the data's own split has no train part; expected `train` in the column `split`.")
    matrix = canonical(parts["train"])  # no item twice, which would count twice
    items = log.items if catalogue is None else catalogue
    if catalogue is not None:
        matrix = _over(matrix, log.items, catalogue)
    return Sums.of(shortened(matrix, log.users, items))


def _over(matrix: sp.csr_array, items: Vocabulary, catalogue: Vocabulary) -> sp.csr_array:
    """A matrix over the public items; what is not among them is left out."""
    to = catalogue.positions(items.ids)
    if not (to >= 0).any():
        raise DataError(
            "none of the log's items is in the catalogue; expected the list of all items, by their ids."
        )
    coo = matrix.tocoo()
    there = to[coo.col] >= 0
    where = (coo.row[there], to[coo.col[there]])
    return canonical(sp.csr_array((coo.data[there], where), shape=(matrix.shape[0], len(catalogue))))


def _released(
    sums: Sums, sigma: float, delta: float, public: bool, place: Path | None, resume: bool
) -> Release:
    """The noisy sums: of an earlier run that is resumed, or new ones, kept before they are used."""
    identity = {"data": fingerprint(sums.histories), "sigma": sigma, "delta": delta, "public": public}
    names = ("activity", "items", "weights", "together")
    if place is not None and artifacts.is_artifact(place / "sums"):
        if not resume:
            raise ConfigError(
                f"{place} holds the noisy sums of an earlier run, for which ε and δ are spent; resume it "
                "(resume=True, --resume), or choose another directory and spend them again."
            )
        found = artifacts.read(place / "sums", kind=KIND)
        if found.manifest.get("identity") != identity:
            raise ConfigError(
                f"{place} holds a run on other data or with other ε or δ; resume with the same."
            )
        with found.understood():
            items = found.positions("items", None, sums.histories.shape[1])
            kept: dict[str, Any] = {"items": items, "activity": found.array("activity", BINS)}
            kept["weights"] = found.array("weights", len(items))
            kept["together"] = found.array("together", len(items), len(items))
            threshold = None if public else found.number("threshold")
            return Release(**kept, deviation=found.number("deviation"), threshold=threshold)
    secret = secrets.randbits(SECRET_BITS)
    told = release(sums, sigma, secret=secret, threshold_delta=None if public else delta / 2)
    dp_accounting.check_users(delta, told.users)
    if place is not None:
        facts = {"identity": identity, "deviation": told.deviation, "threshold": told.threshold}
        artifacts.write(
            place / "sums", kind=KIND, manifest=facts, arrays={name: getattr(told, name) for name in names}
        )
    return told


# ---- invented users ----------------------------------------------------------------------------------------
def _from_invented(
    told: Release,
    log: Interactions,
    public: Interactions | None,
    settings: dict[str, Any],
    place: Path | None,
    resume: bool,
    progress: Progress,
) -> Summary:
    """Invented users from what was released, then the usual distillation of these."""
    from infrec.distillation.pipeline import distill

    people = Population.fit(told, seed=settings["seed"], progress=progress)
    count = int(np.clip(500 * round(told.users / 500), FEWEST, MOST))
    invented = _log(people.draw(count, seed=settings["seed"]), told, log, public)
    if "config" not in settings:  # invented people may be learnt by heart
        settings = {"targets": "own", **settings, "steps": settings.get("steps") or INVENTED_STEPS}
    run = None if place is None else place / "distillation"
    made = distill(invented, run_directory=run, resume=resume, progress=progress, **settings)
    facts = {
        "start_meaning": "Distilled from invented users, who were drawn from noisy sums over the real ones.",
        "source": {"users": round(told.users), "items": invented.n_items, "invented_users": count},
    }
    return replace(made, about={**made.about, **facts})


def _log(rows: sp.csr_array, told: Release, log: Interactions, public: Interactions | None) -> Interactions:
    """Invented users as a log: over the public items, or over those that may be named."""
    users = Vocabulary.numbered(rows.shape[0])
    if public is not None:
        wide = rows.tocoo()
        where = (wide.row, told.items[wide.col])
        matrix = canonical(sp.csr_array((wide.data, where), shape=(rows.shape[0], public.n_items)))
        return Interactions(matrix, users, public.items, item_info=public.item_info)
    # Type and order follow from the named ids alone: the log's own would tell of ids that are not named.
    ids = log.items.take(told.items).cast(pa.string())
    if pc.all(pc.match_substring_regex(ids, CANONICAL_INTEGER)).as_py():
        ids = ids.cast(pa.int64())
    order = to_numpy(pc.sort_indices(ids)).astype(np.int64)
    # Without titles: an item's title in the log is what one user's row says.
    return Interactions(canonical(rows[:, order]), users, Vocabulary(ids.take(from_numpy(order))))


def _nobody(catalogue: Vocabulary, info: pa.Table | None) -> Interactions:
    """The public items with what is publicly known of them: titles of the log would tell what is in it."""
    empty = sp.csr_array((0, len(catalogue)), dtype=np.float32)
    return Interactions(empty, Vocabulary.numbered(0), catalogue, item_info=info)
