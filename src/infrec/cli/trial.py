"""A trial of one model after the other: fitted on the train part, chosen on validation, measured on test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from infrec import machine
from infrec.cli import console, options
from infrec.cli.reading import Reading, in_words_of_the_command_line, next_command
from infrec.data.strength import StrengthOptions
from infrec.errors import InfrecError
from infrec.models.balance import Balance
from infrec.progress import Progress, Stopwatch
from infrec.report import numbers

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.data.strength import Fading
    from infrec.evaluation import Evaluation
    from infrec.models import Recommender
    from infrec.search import Tuned
    from infrec.splits import Split

Protocol = Literal["paper-code", "textbook", "graph"]


@dataclass(frozen=True)
class Search:
    """How the settings of a model are chosen.

    none: Take the shipped ones. seconds: The time of a search. fixed: The settings that are not searched.
    """

    none: bool
    seconds: float | None
    fixed: Sequence[str]


@dataclass(frozen=True, eq=False)
class Trial:
    """The data that every model of a command is fitted and measured on, and how.

    train: The log of --train-on, instead of the split's train part. strength, fading, reading: How the
    weights of the data count, how they fade by age, and how it was read. load: Seconds of reading.
    """

    data: str
    split: Split
    train: Interactions | None
    train_on: str | None
    search: Search
    protocol: Protocol
    sample_users: int | None
    balance: Balance
    strength: StrengthOptions
    fading: Fading | None
    reading: Reading
    seed: int
    load: Mapping[str, float]

    @property
    def fit_on(self) -> Interactions:
        """The log that models are fitted on."""
        return self.split.train if self.train is None else self.train

    @property
    def judged(self) -> int:
        """How many users have something held out."""
        return int((self.split.test.user_counts > 0).sum())

    def each(self, models: Sequence[Recommender], progress: Progress) -> Iterator[dict[str, Any]]:
        """A document for each model; of several, one that cannot run has its error and the others go on.

        Memory of all is checked before the first is fitted.
        """
        from infrec.evaluation.evaluate import check_memory

        n = self.split.train.n_users
        check_memory(self.split, min(n, self.sample_users or n))
        too_large: dict[str, InfrecError] = {}
        for model in models:
            try:
                model.check_size(self.fit_on)
                if not self.search.none and self.search.seconds is None:
                    model.check_time(self.fit_on)
            except InfrecError as failure:
                too_large[model.name] = failure
                if len(models) > 1:
                    why = in_words_of_the_command_line(str(failure))
                    advice = next_command(console.argv(), str(failure))
                    why += f" With it: {advice}" if advice else ""
                    console.note(f"{numbers.label(model.name)} cannot run, the others do: {why}")
        for model in models:
            try:
                if model.name in too_large:
                    raise too_large[model.name]
                document = self.measured(model, progress)
            except (InfrecError, MemoryError) as failure:
                if len(models) == 1:
                    raise
                document = self._failed(model, failure)
            if len(models) > 1 and model.name not in too_large:
                console.note(_line(document))
            yield document

    def measured(self, model: Recommender, progress: Progress) -> dict[str, Any]:
        """The document of one model, fitted and measured."""
        from infrec.evaluation import evaluate
        from infrec.evaluation.comparison import trade

        stages = Stopwatch(dict(self.load))
        split = self.split
        weights: dict[str, Any] = {}
        with stages("fit"):
            if self.train is None:
                function, weights = options.choose_strength(
                    model, split, self.strength, self.reading.weight, progress
                )
                split = _weighed(function, split)
            split = split if self.fading is None else _weighed(self.fading, split)
            tuning = fit_for(model, split, self.train, self.search, self.seed, progress)
            options.note_dislikes(tuning.model)
        with stages("evaluate"):
            how: dict[str, Any] = {"protocol": self.protocol, "sample_users": self.sample_users}
            how |= {"seed": self.seed, "progress": progress}
            result = evaluate(tuning.model, split, **how)
            lists = None if self.balance.neutral else trade(tuning.model, split, self.balance, **how)
        more = {"weights": weights} if weights else {}
        more |= {} if lists is None else {"trade": asdict(lists)}
        return self._facts(model) | self._figures(tuning, result, stages) | more

    def _figures(self, tuning: Tuned[Recommender], result: Evaluation, watch: Stopwatch) -> dict[str, Any]:
        """Figures of one model, and the candidates that were tried."""
        document: dict[str, Any] = {
            "selected": dict(tuning.selected),
            "about": dict(tuning.model.about),
            "users": {"measured": result.n_users, "of": result.population, "judged": self.judged},
            "metrics": dict(result.metrics),
            "intervals": {name: list(bounds) for name, bounds in result.intervals.items()},
            "seconds": {**watch.seconds, "total": console.elapsed()},
            "peak_rss_mb": machine.peak_rss_mb(),
            "device": machine.device(),
            "candidates": options.candidates(tuning.candidates),
        }
        if self.search.seconds is not None:
            document["search"] = {
                "seconds": self.search.seconds,
                "spent": tuning.seconds,
                "seed": self.seed,
                "tried": sum(one.score is not None or bool(one.dropped) for one in tuning.candidates),
                "of": tuning.size,
                "criterion": tuning.criterion,
            }
        return document

    def _failed(self, model: Recommender, failure: Exception) -> dict[str, Any]:
        known = isinstance(failure, InfrecError)
        message = in_words_of_the_command_line(str(failure)) if known else f"memory ran out: {failure}"
        return {**self._facts(model), "error": {"type": type(failure).__name__, "message": message}}

    def _facts(self, model: Recommender) -> dict[str, Any]:
        trained = {} if self.train_on is None else {"train_on": self.train_on}
        facts = {"dataset": self.data, "model": model.name, "protocol": self.protocol}
        return {**facts, "split": self.split.name, **trained}


def _line(document: dict[str, Any]) -> str:
    """The result of one model, as soon as it is known."""
    name = numbers.label(document["model"])
    if "error" in document:
        return f"{name} failed: {document['error']['message']}"
    metrics, spent = document["metrics"], document["seconds"]
    first, *_, last = numbers.shown(metrics)
    values = ", ".join(f"{metric} {numbers.number(metric, metrics[metric])}" for metric in (first, last))
    return f"{name}: {values} (fit {numbers.seconds(spent['fit'])})"


def fit_for(
    model: Recommender,
    split: Split,
    train: Interactions | None,
    search: Search,
    seed: int,
    progress: Progress,
) -> Tuned[Recommender]:
    """The model fitted on the train part (or on `train`), settings chosen on validation, and those tried."""
    from infrec.search import tune

    fit_on = split.train if train is None else train
    # Other users than the split's: their own histories say nothing about whom validation asks for.
    context = None if train is None else split.train.matrix
    empty = not split.val.n_interactions
    validation = None if empty and (search.none or model.auto_settings) else split.val
    if search.none:
        shipped = {name: model.fallback[name] for name in model.auto_settings}
        if fit_on.dislikes is not None and model.takes_dislikes and "dislikes" not in search.fixed:
            shipped["dislikes"] = 0.0
        model = model.with_settings(**shipped)
    elif validation is None:
        console.note(
            "nothing is held out for validation: settings are chosen on a part hidden from what is fitted on."
        )
    space = None
    if search.seconds is not None and model.strategy == "halving":  # the open settings of others are "auto"
        space = {name: values for name, values in model.search_space.items() if name not in search.fixed}
    data = (fit_on, validation)
    return tune(
        model, data, space=space, context=context, seconds=search.seconds, seed=seed, progress=progress
    )


def _weighed(function: Callable[[Interactions], Interactions], split: Split) -> Split:
    """A split whose parts have the weights that a function of logs gives them."""
    train, val, test = (function(part) for part in (split.train, split.val, split.test))
    return replace(split, train=train, val=val, test=test)
