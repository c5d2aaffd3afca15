"""Figure 5: MVAE carried through 17 periods of ML-1M. Do distilled exemplars keep the past best?

An appendix figure: the strategies of `continual`, one period at a time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from infrec.paper.cells import DISTILLED, PERIODS, Cell, Data, pairs
from infrec.paper.continual_strategies import INJECTED, STRATEGIES, has_times
from infrec.paper.experiment import QUICK_STEPS, Experiment, Judged, Plan, claimed
from infrec.paper.published import METRICS
from infrec.paper.records import Record
from infrec.paper.results import HR, Results, Rows, axis, by_metric, parts, point, series, value
from infrec.paper.verdicts import Estimate, Untestable, every, margin
from infrec.privacy.membership import rate
from infrec.report.document import Figure, Panel, Series, Table, Value
from infrec.report.numbers import label, listed

MODEL = "mvae"
COUNT, QUICK_COUNT = 17, 3  # periods
# An update goes on until it has not improved for so many epochs: with 6, updates stopped after 1 to 5.
PATIENCE, MOST_EPOCHS = 40, 1000
EXEMPLARS = 25  # percent of a period's interactions
RIVALS = ("ader", "individual", "joint")  # of the paper's claims


def varied(plan: Plan, dataset: str) -> Iterator[Cell]:
    """One cell for each strategy: all of its periods."""
    settings: dict[str, object] = {"periods": QUICK_COUNT if plan.quick else COUNT, "exemplars": EXEMPLARS}
    settings |= QUICK_STEPS if plan.quick else {"patience": PATIENCE, "most_epochs": MOST_EPOCHS}
    # Records by stand-ins for times keep their meaning: those by real times are other cells.
    settings |= {"times": "real"} if has_times(dataset) else {}
    for strategy in STRATEGIES:
        yield plan.cell(dataset, Data(PERIODS, settings=pairs(strategy=strategy, **settings)), MODEL)


def by_strategy(rows: Rows) -> dict[str, Rows]:
    """The rows of each strategy that has some."""
    groups = {strategy: rows.where(source=strategy) for strategy in STRATEGIES}
    return {strategy: own for strategy, own in groups.items() if own}


# ---- means over the periods -------------------------------------------------------------------------------
@claimed("Distill-CF injected as data beats ADER, Individual and Joint, on average over the periods")
def injected_beats(here: Results) -> Judged:
    return beats_rivals(here, INJECTED)


@claimed("Exemplars by Distill-CF beat ADER, Individual and Joint, on average over the periods")
def beats(here: Results) -> Judged:
    return beats_rivals(here, DISTILLED)


def all_measured(strategies: Container[str], ours: str) -> None:
    """Refuse to compare a strategy with its rivals where one is not measured."""
    if any(strategy not in strategies for strategy in (ours, *RIVALS)):
        raise Untestable("not every strategy is measured yet")


def beats_rivals(here: Results, ours: str) -> Judged:
    """The mean of a strategy against that of each rival."""
    means = {row.source: row for row in here.rows.where(metric=HR)}
    all_measured(means, ours)
    beaten = {rival: margin(means[ours], means[rival]) for rival in RIVALS}
    lines = "; ".join(f"{label(s)} {means[s]}" for s in STRATEGIES if s in means)
    ahead = listed([label(rival) for rival, answer in beaten.items() if answer])
    behind = listed([label(rival) for rival, answer in beaten.items() if answer is False])
    words = f"{label(ours)} is ahead of {ahead} beyond the intervals, behind {behind}"
    return every(beaten.values()), f"mean {HR}: {lines}. {words}"


def figures(each: list[Results]) -> Iterator[Figure]:
    """A place for each strategy; the bars are 95 % intervals."""

    def panel(here: Results, metric: str) -> Panel:
        there = by_strategy(here.rows.where(metric=metric)).items()
        drawn = [Series(name, [point(at, row) for row in rows]) for at, (name, rows) in enumerate(there)]
        ticks = [(float(at), label(name).removesuffix(" (0/1)")) for at, (name, _) in enumerate(there)]
        return Panel(f"{here.dataset}: {metric}", "", axis(metric), drawn, ticks=ticks)

    for here in each:
        yield Figure(
            f"continual-{here.dataset}",
            f"MVAE on {here.dataset}, updated period by period and measured on the next one: means over the "
            "periods. Bars are 95 % intervals over users, means over seeds.",
            [[panel(here, metric)] for metric in METRICS],
        )


def tables(each: list[Results]) -> Iterator[Table]:
    """Strategies down, metrics across."""
    for here in each:
        lines = {label(strategy): rows for strategy, rows in by_strategy(here.rows).items()}
        seeds = max((row.seeds for row in here.rows), default=0)
        counted = f"{seeds} seed{'s' * (seeds != 1)}"
        caption = f"{here.dataset}: MVAE by strategy, mean over the periods and over {counted}."
        yield by_metric(caption, "strategy", lines)


# ---- period by period -------------------------------------------------------------------------------------
def periods(here: Results) -> dict[str, Rows]:
    """Each strategy's rows; the label of a row is the number of its period."""

    def of(record: Record) -> Iterable[tuple[str, Mapping[str, Any]]]:
        for period in record["measured"][0].get("periods", ()):
            yield str(period["period"]), period

    return by_strategy(parts(here.records, of))


@claimed("Exemplars by Distill-CF are the best of the four strategies in most periods")
def most_periods(here: Results) -> Judged:
    """Over the periods: the share of those in which it is the best, with its interval."""
    of_strategies = periods(here)
    all_measured(of_strategies, DISTILLED)
    # Without the first, on which all strategies have the same model: there is no past yet.
    values = {name: [r.value for r in rows.where(metric=HR)[1:]] for name, rows in of_strategies.items()}
    ours, theirs = values[DISTILLED], {rival: values[rival] for rival in RIVALS}
    best = sum(value > max(rivals) for value, *rivals in zip(ours, *theirs.values(), strict=True))
    leads = ", ".join(
        f"{label(rival)} in {sum(a > b for a, b in zip(ours, rows, strict=True))}"
        for rival, rows in theirs.items()
    )
    share = rate(best, len(ours))
    answer = Estimate(share.value, share.low, share.high).above(0.5)
    return answer, f"best in {best} of {len(ours)} periods ({HR}); ahead of {leads}"


def period_figures(each: list[Results]) -> Iterator[Figure]:
    def panel(here: Results, metric: str) -> Panel:
        own = {name: rows.where(metric=metric) for name, rows in periods(here).items()}
        points = {name: [point(int(row.label), row) for row in rows] for name, rows in own.items()}
        return Panel(f"{here.dataset}: {metric}", "period", axis(metric), series(points))

    for here in each:
        yield Figure(
            f"continual-periods-{here.dataset}",
            "MVAE after each period, measured on the next, by strategy. Bands are 95 % intervals over the "
            "period's users, means over seeds.",
            [[panel(here, metric)] for metric in (HR, "HR@100", "NDCG@100")],
        )


def period_tables(each: list[Results]) -> Iterator[Table]:
    """Periods down, strategies across."""
    for here in each:
        of_strategies = {name: rows.where(metric=HR) for name, rows in periods(here).items()}
        measured = (record["measured"][0] for record in here.records)
        first: list[Any] = next((one["periods"] for one in measured if "periods" in one), [])
        lines: list[Sequence[str | Value]] = []
        for period, *rows in zip(first, *of_strategies.values(), strict=False):
            best = max(row.value for row in rows)
            about = (f"{period['period']}", f"{period['users']}", f"{period['unseen_percent']:.2f} %")
            lines.append((*about, *(value(HR, row, best=best) for row in rows)))
        head = ("period", "users", "of items never seen", *map(label, of_strategies))
        yield Table(f"{here.dataset}: {HR} on each period, by strategy.", head, lines)


def period_rows(results: Results) -> list[dict[str, Any]]:
    """For programs: one row for each period, strategy and metric."""
    return [
        {
            **row.only("dataset", "source", "model"),
            "period": int(row.label),
            **row.only("metric", "value", "low", "high", "seeds", "paper"),
        }
        for here in results.each()
        for rows in periods(here).values()
        for period in rows.every("label")
        for metric in METRICS
        for row in rows.where(label=period, metric=metric)
    ]


NOTES = (
    f"The log is cut by time into {COUNT} periods of equally many interactions. ML-1M is cut by its ratings' "
    "times where the file ml-1m-times.parquet lies beside it (a tenth of them real, the others interpolated)."
    " Without it the order is (−user, place in the user's own history): its user ids run backwards in time, "
    "and that puts 28 % of the ratings into the right period. Records by the one and the other are different "
    "cells.",
    "Trained on the periods up to i, measured on period i + 1: the last fifth of each user's "
    "interactions there is to be found, given the earlier ones and everything before. Items that no "
    "period up to i has cannot be recommended and count as missed.",
    "Joint and Individual are trained from the beginning in each period; the others go on from the last "
    "model. Fine-tune, which the paper does not have, is ADER without exemplars.",
    f"ADER's and Distill-CF's exemplars have equally many interactions: {EXEMPLARS} % of a period's. "
    "Both are replayed with ADER's adaptive distillation loss (λ_base = 0.8). “As data” puts the same "
    "summary into the training data beside the period's users, as the paper describes it, without that loss. "
    "ADER is our version for MVAE: it herds in MVAE's latent means, among the period's users and its old "
    "exemplars. Distill-CF carries its summary on, as `infrec distill --continue` does.",
    f"A tenth of each period's interactions decides when training stops: after {PATIENCE} epochs without an "
    "improvement (in records that do not say so after 6, which ended updates after 1 to 5 epochs). The "
    "settings of MVAE are those chosen on the whole dataset's validation part. The paper states no figures "
    "for this experiment.",
)
CONTINUAL = Experiment(
    name="continual",
    title="Do distilled exemplars help a model that is updated period by period?",
    source="Figure 5",
    about="MVAE through 17 periods with Joint, Individual, ADER and Distill-CF: the means.",
    varied=varied,
    claims=(injected_beats, beats),
    figures=figures,
    tables=tables,
    notes=NOTES,
    datasets=("ml-1m",),
    seeds=5,
)
CONTINUAL_PERIODS = Experiment(
    name="continual-periods",
    title="A model that is updated, one period at a time",
    source="appendix",
    about="The strategies of continual on each of the periods that they were measured on.",
    varied=varied,
    claims=(most_periods,),
    figures=period_figures,
    tables=period_tables,
    notes=NOTES,
    rows=period_rows,
    datasets=("ml-1m",),
    seeds=5,
)
