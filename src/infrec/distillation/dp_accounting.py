"""The promise of (ε, δ): between which logs it holds, by which mechanism, and what it does not cover.

How much noise an ε needs, and which ε a noise gives, is said by dp-accounting (the extra `privacy`), never
by us. The distillation itself takes the noise, so it also runs where the accountant is not installed; ε is
then worked out later from what the manifest says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from infrec.errors import ConfigError

MECHANISM = (
    "Gaussian noise on three sums over users, each user's share of norm 1 at most (activity, items, items "
    "that occur together); invented users drawn from these sums; the summary distilled from them"
)
RELATION = "adding or removing one user, with all their interactions"
LARGEST_DELTA = 1e-4
NOT_COVERED = (
    "The card and the report of an audit (counts, curves, quality, attacks), which were measured on the real "
    "users: they lie beside the release and stay with its owner.",
    "What was looked at before: settings chosen by trying them on the same log, or a second summary of it, "
    "add their own ε and δ.",
    "A person behind several user ids, or several people behind one.",
    "Models that are finished on the real log with the summary as centres.",
    "The pseudo-random generator and the rounding of floating-point noise, which the theory takes for "
    "perfect.",
    "Whatever was done to the log before it was read here, and that a run was refused.",
)
PUBLIC_ITEMS = "the list of items was given and is taken as public"
THRESHOLD_ITEMS = (
    "only items that stand out from the noise are named, which takes half of δ; nothing else is told of them"
)


def multiplier_for(epsilon: float, delta: float, *, public_items: bool) -> float:
    """The noise multiplier that ε and δ need. public_items: no part of δ is needed for naming items."""
    check(epsilon, delta)
    # A thousandth more than needed: the accountant's own check (`spent`) rounds up.
    needed = accountant().get_sigma_gaussian(epsilon=epsilon, delta=for_noise(delta, public_items))
    return 1.001 * float(needed)


def spent(multiplier: float, delta: float) -> float:
    """The ε at this δ of a Gaussian mechanism that is used once, as dp-accounting has it."""
    dp = accountant()
    ledger = import_module("dp_accounting.pld").PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    ledger.compose(dp.GaussianDpEvent(multiplier))
    return float(ledger.get_epsilon(delta))


def for_noise(delta: float, public_items: bool) -> float:
    """The part of δ that belongs to the noise; the other half pays for naming items."""
    return delta if public_items else delta / 2


def statement(
    multiplier: float, delta: float, *, epsilon: float | None, public_items: bool
) -> dict[str, Any]:
    """The promise as the manifest and the card have it.

    epsilon: the ε asked for; it is checked where the accountant is there.
    """
    facts: dict[str, Any] = {
        "epsilon": None,
        "delta": delta,
        "relation": RELATION,
        "mechanism": MECHANISM,
        "noise_multiplier": multiplier,
        "vocabulary": PUBLIC_ITEMS if public_items else THRESHOLD_ITEMS,
        "public_items": public_items,
        "not_covered": list(NOT_COVERED),
        "accountant": None,
    }
    return with_epsilon(facts, epsilon) or facts


def with_epsilon(facts: Mapping[str, Any] | None, epsilon: float | None = None) -> dict[str, Any] | None:
    """A statement with its ε, where dp-accounting can say it; else as it was. epsilon: the ε wished for."""
    from importlib.metadata import version
    from importlib.util import find_spec

    if facts is None:
        return None
    if facts["epsilon"] is not None or find_spec("dp_accounting") is None:
        return dict(facts)
    delta = for_noise(facts["delta"], facts["public_items"])
    cost = spent(facts["noise_multiplier"], delta)
    if epsilon is not None and cost > epsilon:
        raise ConfigError(
            f"the noise gives ε = {cost:g}, more than the {epsilon:g} asked for; expected more noise."
        )
    return {**facts, "epsilon": epsilon or cost, "accountant": f"dp-accounting {version('dp-accounting')}"}


def check(epsilon: float | None, delta: float | None) -> None:
    """Refuse what promises nothing."""
    if delta is None:
        raise ConfigError(
            "ε without δ promises nothing; give delta (--delta), below one over twice the number of users, "
            "such as 1e-6."
        )
    if not 0 < delta <= LARGEST_DELTA:
        raise ConfigError(
            f"delta is {delta:g}; expected above 0 and at most {LARGEST_DELTA:g}, and below one over twice "
            "the number of users, such as 1e-6."
        )
    if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
        raise ConfigError(f"epsilon is {epsilon:g}; expected a number above 0, such as 3.")


def check_users(delta: float, users: float) -> None:
    """Refuse a δ that is too large for so many users (their noisy number: the exact one may not decide).

    With δ = 1 / users, publishing one random person's whole history would be (0, δ)-private.
    """
    if delta >= 1 / (2 * users):
        raise ConfigError(
            f"delta is {delta:g} for about {users:,.0f} users; expected below {1 / (2 * users):.2g}, one "
            "over twice their number: with more, giving a person's whole history away would be allowed."
        )


def accountant() -> Any:
    """dp-accounting, or what to do without it."""
    try:
        return import_module("dp_accounting")
    except ImportError:
        raise ConfigError(
            "how much noise an ε needs is said by dp-accounting, which is not installed; pip install "
            "'infrec[privacy]', or give the noise itself (noise_multiplier, --noise-multiplier)."
        ) from None
