"""Functions of weights, compared on validation data: several that make them even, and 1 for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from infrec.data import Interactions
from infrec.data.strength import EVEN, NONE, Strength
from infrec.errors import SolveError
from infrec.progress import Progress, silent
from infrec.search.criterion import Criterion
from infrec.search.tunable import Tunable
from infrec.search.tune import tune
from infrec.splits import Split, inner_holdout

if TYPE_CHECKING:
    from collections.abc import Mapping

M = TypeVar("M", bound=Tunable)
_BETTER = 1.005  # times as good another one must be than the plainest


@dataclass(frozen=True, eq=False)
class Choice:
    """The function of weights that ranks validation data best, and NDCG@100 of each, in percent."""

    strength: Strength
    scores: Mapping[str, float]


def choose(
    model: M, data: Split | Interactions, *, seconds: float | None = None, progress: Progress = silent
) -> Choice:
    """The function of weights that suits a model and a log, by NDCG@100 on validation.

    Args:
        model: The model, unfitted; its open settings are chosen for each function.
        data: A split, of which only train and validation are looked at; or a log, of which a part is held
            out.
        seconds: Time for the settings of each function.
        progress: Called while it works.
    """
    if isinstance(data, Split):
        parts: Any = (data.train, data.val) if data.val.n_interactions else inner_holdout(data.train)
    else:
        parts = inner_holdout(data)
    whole = data.train if isinstance(data, Split) else data
    if parts is None:
        return Choice(Strength.of(NONE, whole), {})
    train, validation = parts
    scores: dict[str, float] = {}
    for number, how in enumerate(EVEN):
        strength = Strength.of(how, train)
        try:
            tuned = tune(model, (strength(train), strength(validation)), seconds=seconds)
            if not tuned.model.is_interpolating:
                scores[how] = Criterion(validation.matrix, metric="NDCG")(tuned.model)
        except SolveError:
            continue
        progress("choose what weights count for", number + 1, len(EVEN), weight_as=how)
    plain = scores.get(NONE, 0.0)
    best = max(scores, key=lambda how: scores[how], default=NONE)
    if scores.get(best, 0.0) <= _BETTER * plain:
        best = NONE
    return Choice(Strength.of(best, whole), scores)
