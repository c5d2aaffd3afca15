"""Ratings that all count as interactions, good and bad alike: their distribution, and a rule that helps."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 30  # different values on a scale of ratings; with more, it is a measurement or a count
GOOD = 0.75  # of the highest rating, as 4 of 5 stars are
SHOWN = 12  # values of a scale


def suggested_rule(counts: Mapping[float, int]) -> str | None:
    """A rule for the good ones, such as `rating >= 4`; None where all are equal, or there is no scale.

    Args:
        counts: How often each rating occurs.
    """
    values = sorted(counts)
    if not 2 <= len(values) <= MOST or values[-1] <= 0:
        return None
    least = next(value for value in values if value >= GOOD * values[-1])
    return f"rating >= {least:g}" if least > values[0] else None


def ratings_sentence(source: str, counts: Mapping[float, int]) -> str | None:
    """A sentence about ratings that all count, with the rule for the good ones; None where there is none.

    Args:
        source: Name of the file.
        counts: How often each rating occurs.
    """
    if (rule := suggested_rule(counts)) is None:
        return None
    values, total = sorted(counts), sum(counts.values())
    percent = {value: 100 * counts[value] / total for value in values}
    shown = values if len(values) <= SHOWN else [*values[:3], *values[-3:]]
    parts = [f"{value:g}: {percent[value]:.0f} %" for value in shown]
    if shown is not values:
        parts.insert(3, "…")
    least = float(rule.rpartition(" ")[2])
    good = sum(percent[value] for value in values if value >= least)
    if values[0] == 0 and len(values) > 4 and percent[0] > 100 / len(values):
        parts.append("where 0 may mean that no rating was given")
    return (
        f"every rating in {source} counts as an interaction, the lowest too ({', '.join(parts)}); for the "
        f'good ones alone, {good:.0f} % of the rows, use `positive="{rule}"`'
    )
