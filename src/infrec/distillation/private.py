"""Distillation with user-level differential privacy, (ε, δ).

real users → noisy sums (`dp_sums.py`, the only thing that costs ε and δ) → invented users (`dp_sums.py`).
That is `private_log`, a step before the usual distillation, whose start, row sizes, λ, validation and early
stopping only ever see invented users. docs/guarantee.md has the proof.

The seed of the noise comes from the operating system and is written nowhere that is passed on: with it
anybody could take the noise off again. What is kept in the run directory is what a resumed run needs to go
on without spending more; it is deleted with the directory.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec import artifacts
from infrec.checkpoints import fingerprint
from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.data.parsing import CANONICAL_INTEGER
from infrec.data.vocabulary import from_numpy, to_numpy
from infrec.distillation import dp_accounting
from infrec.distillation.dp_sums import BINS, Population, Release, Sums, release, shortened
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


@dataclass(frozen=True, eq=False)
class PrivateLog:
    """Invented users in place of real ones, and what a summary of them has to say about that."""

    invented: Interactions
    about: Mapping[str, Any]


def private_log(
    log: Split | Interactions,
    *,
    delta: float | None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    catalogue: Vocabulary | None = None,
    catalogue_info: pa.Table | None = None,
    seed: int = 42,
    directory: Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> PrivateLog:
    """Invented users, drawn from noisy sums over the real ones: whatever is made of them keeps (ε, δ).

    Args:
        log: The log itself, never a split of it: all its interactions are used or, where it has a column
            `split`, its train part. Weights count as 1.
        delta: δ.
        epsilon: ε; needs dp-accounting.
        noise_multiplier: The noise instead of ε; runs anywhere.
        catalogue: The public list of items; without it, which items exist is itself released under (ε, δ).
        catalogue_info: What is publicly known of them, such as titles; the log's are never taken.
        seed: Seed of the invented users; that of the noise is secret.
        directory: Where the noisy sums are kept, so that a resumed run spends nothing more.
        resume: Whether to go on from sums that are there.
        progress: Called as the work goes on.
    """
    import jax

    if jax.process_count() > 1:
        raise ConfigError(
            f"{jax.process_count()} processes work together; expected one: each would draw and spend its own "
            "noise."
        )
    if isinstance(log, Split):
        raise ConfigError(
            "a split was given beside ε and δ, and its parts may depend on all users at once; give the log "
            "itself: all its interactions are used, or the train part where it has a column `split`."
        )
    public = catalogue is not None
    sigma = noise_for(epsilon, delta, noise_multiplier, public_items=public)
    assert delta is not None
    released = _released(user_sums(log, catalogue), sigma, delta, public, directory, resume)
    people = Population.fit(released, seed=seed, progress=progress)
    count = int(np.clip(500 * round(released.users / 500), FEWEST, MOST))
    over = None if catalogue is None else _nobody(catalogue, catalogue_info)
    invented = _log(people.draw(count, seed=seed), released, log, over)
    about = {
        "start_meaning": "Distilled from invented users, who were drawn from noisy sums over the real ones.",
        "source": {"users": round(released.users), "items": invented.n_items, "invented_users": count},
        "guarantee": dp_accounting.statement(sigma, delta, epsilon=epsilon, public_items=public),
    }
    return PrivateLog(invented, about)


def noise_for(
    epsilon: float | None, delta: float | None, noise_multiplier: float | None, *, public_items: bool
) -> float:
    """The noise multiplier σ of a promise; refuses what promises nothing.

    Args:
        epsilon: ε; needs dp-accounting.
        delta: δ.
        noise_multiplier: σ itself, instead of ε.
        public_items: Whether there is a catalogue; without one, half of δ names the items.
    """
    dp_accounting.check(epsilon, delta)
    assert delta is not None
    if (epsilon is None) == (noise_multiplier is None):
        raise ConfigError("expected exactly one of epsilon and noise_multiplier.")
    if epsilon is not None:
        noise_multiplier = dp_accounting.multiplier_for(epsilon, delta, public_items=public_items)
    sigma = float(noise_multiplier or 0.0)
    if not (np.isfinite(sigma) and sigma >= LEAST_NOISE):
        raise ConfigError(
            f"noise_multiplier is {sigma:g}; expected a finite number of at least {LEAST_NOISE:g}: less "
            "noise promises nothing."
        )
    return sigma


def refuse(settings: dict[str, Any]) -> None:
    """Refuse every setting that would void the guarantee."""
    for name, why in VOIDS.items():
        if settings.get(name):
            raise ConfigError(f"{name} cannot stand beside ε and δ: {why}, which voids them; leave it out.")
    start = settings.get("start") or getattr(settings.get("settings"), "start", None)
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
        artifact = artifacts.read(place / "sums", kind=KIND)
        if artifact.manifest.get("identity") != identity:
            raise ConfigError(
                f"{place} holds a run on other data or with other ε or δ; resume with the same."
            )
        with artifact.understood():
            items = artifact.positions("items", None, sums.histories.shape[1])
            kept: dict[str, Any] = {"items": items, "activity": artifact.array("activity", BINS)}
            kept["weights"] = artifact.array("weights", len(items))
            kept["together"] = artifact.array("together", len(items), len(items))
            if kept["activity"].min() < 0 or not kept["activity"].any() or not (kept["weights"] > 0).any():
                raise artifact.unsound("a number of users is negative, or nobody and nothing has any weight")
            threshold = None if public else artifact.number("threshold")
            return Release(**kept, deviation=artifact.number("deviation"), threshold=threshold)
    secret = secrets.randbits(SECRET_BITS)
    released = release(sums, sigma, secret=secret, threshold_delta=None if public else delta / 2)
    dp_accounting.check_users(delta, released.users)
    if place is not None:
        facts = {"identity": identity, "deviation": released.deviation, "threshold": released.threshold}
        artifacts.write(
            place / "sums",
            kind=KIND,
            manifest=facts,
            arrays={name: getattr(released, name) for name in names},
        )
    return released


# ---- invented users ----------------------------------------------------------------------------------------
def _log(
    rows: sp.csr_array, released: Release, log: Interactions, public: Interactions | None
) -> Interactions:
    """Invented users as a log: over the public items, or over those that may be named."""
    users = Vocabulary.numbered(rows.shape[0])
    if public is not None:
        wide = rows.tocoo()
        where = (wide.row, released.items[wide.col])
        matrix = canonical(sp.csr_array((wide.data, where), shape=(rows.shape[0], public.n_items)))
        return Interactions(matrix, users, public.items, item_info=public.item_info)
    # Type and order follow from the named ids alone: the log's own would tell of ids that are not named.
    ids = log.items.take(released.items).cast(pa.string())
    if pc.all(pc.match_substring_regex(ids, CANONICAL_INTEGER)).as_py():
        ids = ids.cast(pa.int64())
    order = to_numpy(pc.sort_indices(ids)).astype(np.int64)
    # Without titles: an item's title in the log is what one user's row says.
    return Interactions(canonical(rows[:, order]), users, Vocabulary(ids.take(from_numpy(order))))


def _nobody(catalogue: Vocabulary, info: pa.Table | None) -> Interactions:
    """The public items with what is publicly known of them: titles of the log would tell what is in it."""
    empty = sp.csr_array((0, len(catalogue)), dtype=np.float32)
    return Interactions(empty, Vocabulary.numbered(0), catalogue, item_info=info)
