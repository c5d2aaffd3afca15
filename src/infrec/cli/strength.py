"""Weights and dislikes in a command: they count for what its options say, or what validation does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from infrec.cli import console
from infrec.cli.reading import Reading
from infrec.data.weights import RAW, StrengthOptions
from infrec.progress import Progress

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.data.strength import Strength
    from infrec.models import Recommender
    from infrec.splits import Split


def faded(log: Interactions, half_life: str) -> Interactions:
    """The log with weights by age.

    Args:
        log: A log with times.
        half_life: Such as `90d`.
    """
    from infrec.data import strength

    return strength.faded(log, half_life)


def weighed(
    model: Recommender, log: Interactions, given: StrengthOptions, reading: Reading, progress: Progress
) -> tuple[Interactions, dict[str, Any]]:
    """The log with weights that count for what the options say, and what a manifest keeps of it.

    Args:
        model: The model that is to be fitted.
        log: The log, its weights as they were read.
        given: The options.
        reading: How the log was read: a column of weights that it names is made even unless options say.
        progress: Called while it works.
    """
    about: dict[str, Any] = {} if given.half_life is None else {"half_life": given.half_life}
    function, facts = chosen(model, log, given, reading, progress)
    return (log, about) if function is None else (function(log), {**about, "weights": facts})


def weighed_split(function: Strength, split: Split) -> Split:
    """The three parts of a split with weights that count for what the function says.

    Args:
        function: The function of weights.
        split: The split.
    """
    train, val, test = (function(part) for part in (split.train, split.val, split.test))
    return replace(split, train=train, val=val, test=test)


def chosen(
    model: Recommender,
    data: Interactions | Split,
    given: StrengthOptions,
    reading: Reading,
    progress: Progress,
) -> tuple[Strength | None, dict[str, Any]]:
    """The function of logs that makes their weights count, and the facts about it; None: they stay.

    Args:
        model: The model that is to be fitted.
        data: A log, or a split of one.
        given: The options.
        reading: How the log was read.
        progress: Called while it works.
    """
    from infrec.data import Interactions
    from infrec.data.strength import Strength
    from infrec.search import strength as search

    log = data if isinstance(data, Interactions) else data.train
    if given.weight_as is None and (
        reading.weight is None or given.half_life is not None or not log.weighted
    ):
        return None, {}
    if given.weight_as is not None:
        function = Strength.of(given.weight_as, log)
        return function, function.about
    choice = search.choose(model, data, progress=progress)
    scores = ", ".join(f"{how} {score:.2f}" for how, score in choice.scores.items())
    why = f"validation NDCG@100 in %: {scores}" if scores else "nothing could be held out to choose by"
    console.note(
        f"weights count as {choice.strength.how} ({why}); --weight-as decides, {RAW} takes them as they are."
    )
    return choice.strength, {**choice.strength.about, "scores": dict(choice.scores)}


def note_dislikes(model: Recommender) -> None:
    """Say which weight of dislikes was chosen, and by what.

    Args:
        model: The fitted model.
    """
    tried = model.about.get("dislikes")
    if not tried or "dislikes" not in model.selected:
        return
    weight = model.selected["dislikes"]
    without, chosen = (next(one for one in tried if one["weight"] == at) for at in (0.0, weight))
    likes, dislikes = (f"{name} {without[name]:.2f}, {chosen[name]:.2f}" for name in ("likes", "dislikes"))
    why = f"validation NDCG@100 in %, without and with: {likes}; {dislikes}"
    if not weight:
        why = "with any other, hidden likes stand lower on validation, or hidden dislikes no lower"
    console.note(f"dislikes count with the weight {weight:g} ({why}); --set dislikes=W decides.")
