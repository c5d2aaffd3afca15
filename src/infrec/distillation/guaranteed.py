"""Distillation with user-level differential privacy, (ε, δ): by noisy sums, or by noisy gradients.

sums (the default): real users → noisy sums (`release.py`, the only thing that costs ε and δ) → invented users
(`population.py`) → the usual distillation, whose start, row sizes, λ, validation and early stopping only
ever see invented users. gradients: `noisy_steps.py`.

The seed of the noise comes from the operating system and is written nowhere that is passed on: with it
anybody could take the noise off again. What is kept in the run directory is what a resumed run needs to go
on without spending more; it is deleted with the directory.
"""

from __future__ import annotations

import secrets
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from infrec import artifacts
from infrec.data import Interactions, Vocabulary
from infrec.data.arrow import from_numpy, to_numpy
from infrec.data.interactions import canonical
from infrec.data.values import CANONICAL_INTEGER
from infrec.distillation import guarantee
from infrec.distillation.config import Config, stated
from infrec.distillation.guarantee import Mechanism
from infrec.distillation.population import Population
from infrec.distillation.release import BINS, Release, release
from infrec.distillation.summary import Summary
from infrec.errors import ConfigError, DataError
from infrec.models.checkpoint import fingerprint
from infrec.progress import Progress, silent
from infrec.splits import Split, own_split

FEWEST, MOST = 1000, 10_000  # invented users
INVENTED_STEPS = 100  # of distilling them: the noise, not the number of steps, decides how good it gets
KIND = "noisy sums"
LEAST_NOISE = 0.1  # an ε near 100
NOISY_STEPS, NOISY_RATE = 30, 0.1
VOIDS = {  # settings that would let real users in past the noise, and why
    "target": "a target is judged on the real users",
    "previous": "the summary that is continued may come from real users without noise",
    "on_validate": "a judge of one's own may look at the real users",
    "search": "a search asks the real users for its grid",
    "percent": "a share of the log's interactions tells how many there are",
}
# Of noisy gradients, nothing is chosen on the way: what would be is refused as well.
VOIDS_GRADIENTS = {
    "batch": "every user is in every step, and that is how the noise is counted",
    "patience": "early stopping looks at the real users",
}


def distill(
    data: Split | Interactions,
    *,
    delta: float | None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    mechanism: Mechanism = "sums",
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

    catalogue: the public list of items; without it, which items exist is itself released under the guarantee
    (by sums alone). catalogue_info: what is publicly known of them, such as titles; the log's are not taken.
    Other settings are those of `distill`, and act on invented users alone. Weights count as 1.
    """
    import jax

    settings = stated(settings)
    if jax.process_count() > 1:
        raise ConfigError(
            f"{jax.process_count()} processes work together; expected one: each would draw and spend its own "
            "noise."
        )
    refuse(settings, mechanism, catalogue is not None)
    guarantee.check(epsilon, delta)
    assert delta is not None
    if (epsilon is None) == (noise_multiplier is None):
        raise ConfigError("expected exactly one of epsilon and noise_multiplier.")
    public = catalogue is not None
    asked = settings.get("steps") or getattr(settings.get("config"), "steps", None)
    times = int(asked or NOISY_STEPS) if mechanism == "gradients" else 1
    if epsilon is not None:
        noise_multiplier = guarantee.multiplier_for(epsilon, delta, public_items=public, times=times)
    sigma = float(noise_multiplier or 0.0)
    if not (np.isfinite(sigma) and sigma >= LEAST_NOISE):
        raise ConfigError(
            f"noise_multiplier is {sigma:g}; expected a finite number of at least {LEAST_NOISE:g}: less "
            "noise promises nothing."
        )
    if not isinstance(data, Split) and data.parts is not None:
        data = own_split(data)
    log = data.train if isinstance(data, Split) else data
    train = binary(_over(log, catalogue) if catalogue is not None else log.matrix)
    place = None if run_directory is None else Path(run_directory)
    settings |= {"users": users, "seed": 42 if seed is None else seed}
    over = None if catalogue is None else _nobody(catalogue, catalogue_info)
    if mechanism == "gradients":
        assert over is not None
        names = names_of(log.users)
        made = _by_gradients(train, names, over, sigma, times, settings, place, resume, progress)
    else:
        told = _released(train, sigma, delta, public, place, resume)
        made = _by_sums(told, log, over, settings, place, resume, progress)
    promise = guarantee.statement(
        mechanism, sigma, delta, epsilon=epsilon, public_items=public, times=times,
        own_split=not isinstance(data, Split) or data.name == "own",
    )  # fmt: skip
    return replace(made, about={**made.about, "mechanism": mechanism, "guarantee": promise})


def refuse(settings: dict[str, Any], mechanism: str = "sums", public_items: bool = True) -> None:
    """Refuse every setting that would void the guarantee."""
    if mechanism not in guarantee.MECHANISMS:
        raise ConfigError(f"mechanism is {mechanism!r}; expected {' or '.join(guarantee.MECHANISMS)}.")
    for name, why in (VOIDS | (VOIDS_GRADIENTS if mechanism == "gradients" else {})).items():
        if settings.get(name):
            raise ConfigError(f"{name} cannot stand beside ε and δ: {why}, which voids them; leave it out.")
    start = settings.get("start") or getattr(settings.get("config"), "start", None)
    if start not in (None, "popularity"):
        raise ConfigError(f"start is {start!r}, rows of real people, which voids ε and δ; leave it out.")
    if mechanism == "gradients" and settings.get("targets") == "others":
        raise ConfigError(
            "targets is 'others', a model of the real users without noise, which voids ε and δ; leave it out."
        )
    if mechanism == "gradients" and not public_items:
        raise ConfigError(
            "noisy gradients would tell which items exist; expected the public list of items (catalogue, "
            "--catalogue), or the mechanism 'sums'."
        )


# ---- by sums -----------------------------------------------------------------------------------------------
def _by_sums(
    told: Release,
    log: Interactions,
    public: Interactions | None,
    settings: dict[str, Any],
    place: Path | None,
    resume: bool,
    progress: Progress,
) -> Summary:
    """Invented users from what was released, then the usual distillation of these."""
    from infrec.distillation import api

    people = Population.fit(told, seed=settings["seed"], progress=progress)
    count = int(np.clip(500 * round(told.users / 500), FEWEST, MOST))
    invented = _log(people.draw(count, seed=settings["seed"]), told, log, public)
    if "config" not in settings:  # invented people may be learnt by heart
        settings = {"targets": "own", **settings, "steps": settings.get("steps") or INVENTED_STEPS}
    run = None if place is None else place / "distillation"
    made = api.distill(invented, run_directory=run, resume=resume, progress=progress, **settings)
    facts = {
        "start_meaning": "Distilled from invented users, who were drawn from noisy sums over the real ones.",
        "source": {"users": round(told.users), "items": invented.n_items, "invented_users": count},
    }
    return replace(made, about={**made.about, **facts})


def _released(
    train: sp.csr_array, sigma: float, delta: float, public: bool, place: Path | None, resume: bool
) -> Release:
    """The noisy sums: of an earlier run that is resumed, or new ones, kept before they are used."""
    identity = {"data": fingerprint(train), "sigma": sigma, "delta": delta, "public": public}
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
            items = found.positions("items", None, train.shape[1])
            kept: dict[str, Any] = {"items": items, "activity": found.array("activity", BINS)}
            kept["weights"] = found.array("weights", len(items))
            kept["together"] = found.array("together", len(items), len(items))
            return Release(**kept, deviation=found.number("deviation"))
    told = release(train, sigma, secret=secrets.randbits(63), threshold_delta=None if public else delta / 2)
    if place is not None:
        facts = {"identity": identity, "deviation": told.deviation}
        artifacts.write(
            place / "sums", kind=KIND, manifest=facts, arrays={name: getattr(told, name) for name in names}
        )
    return told


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
    info = None if log.item_info is None else log.item_info.take(from_numpy(told.items[order]))
    named = Vocabulary(ids.take(from_numpy(order)))
    return Interactions(canonical(rows[:, order]), users, named, item_info=info)


def _nobody(catalogue: Vocabulary, info: pa.Table | None) -> Interactions:
    """The public items with what is publicly known of them: titles of the log would tell what is in it."""
    empty = sp.csr_array((0, len(catalogue)), dtype=np.float32)
    return Interactions(empty, Vocabulary.numbered(0), catalogue, item_info=info)


def binary(matrix: sp.csr_array) -> sp.csr_array:
    """Every interaction as 1: one user's weights have no bound."""
    ones = np.ones(matrix.nnz, np.float32)
    return sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _over(log: Interactions, catalogue: Vocabulary) -> sp.csr_array:
    """The log over the public items; what is not among them is left out."""
    to = catalogue.positions(log.items.ids)
    if not (to >= 0).any():
        raise DataError(
            "none of the log's items is in the catalogue; expected the list of all items, by their ids."
        )
    coo = log.matrix.tocoo()
    there = to[coo.col] >= 0
    where = (coo.row[there], to[coo.col[there]])
    return canonical(sp.csr_array((coo.data[there], where), shape=(log.n_users, len(catalogue))))


# ---- by gradients ------------------------------------------------------------------------------------------
def names_of(users: Vocabulary) -> np.ndarray:
    """A number for each user that follows from the id alone; two may have the same one."""
    ids = users.ids.cast(pa.string()).to_pylist()
    return np.fromiter((zlib.crc32(one.encode()) for one in ids), np.uint32, len(ids))


def _by_gradients(
    train: sp.csr_array,
    names: np.ndarray,
    public: Interactions,
    sigma: float,
    times: int,
    settings: dict[str, Any],
    place: Path | None,
    resume: bool,
    progress: Progress,
) -> Summary:
    import jax

    from infrec.distillation import noisy_steps

    given = {name: value for name, value in settings.items() if value is not None}
    base = given.pop("config", None) or Config.of(given.get("mode", "soft"), rate=NOISY_RATE)
    count = given.get("users", base.users)
    total, gamma = given.pop("total", None), given.pop("gamma", None)
    given_size = gamma or (total / count if total else given.get("per_user") or base.per_user)
    size = float(given_size or noisy_steps.default_size(public.n_items))
    if size >= public.n_items:
        raise ConfigError(
            f"{size:g} interactions per synthetic user were asked for, but there are {public.n_items:,} "
            "items; expected fewer, or every row would hold them all."
        )
    settled = {"steps": times, "per_user": size, "mass": size, "targets": "own"}
    config = replace(base, **given | settled)
    began = time.perf_counter()
    x_hat = noisy_steps.run(
        train,
        config,
        sigma,
        names=names,
        place=None if place is None else place / "steps",
        resume=resume,
        progress=progress,
    )
    spent = time.perf_counter() - began
    about = {
        "mode": config.mode,
        "start": "noise",
        "start_meaning": "The logits started as noise; real users came in through clipped and noised "
        "gradients.",
        "seed": config.seed,
        "steps": times,
        "best_step": times,
        "reg": config.reg,
        "reg_grid": [config.reg],
        "criterion": config.criterion,
        "validation": {},
        "seconds": round(spent, 3),
        "ms_per_step": round(1e3 * spent / times, 3),
        "device": jax.devices()[0].device_kind,
        "settings": config.to_dict(),
        "history": [],
    }
    return Summary.of_array(x_hat, public, about)
