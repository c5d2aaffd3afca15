"""The sentence about ratings that all count, and the rule that it suggests."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrec.data import Interactions
from infrec.data.row_rules import ratings_sentence, suggested_rule


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (range(1, 6), "rating >= 4"),
        ([half / 2 for half in range(1, 11)], "rating >= 4"),
        (range(11), "rating >= 8"),
        ([0, 1], "rating >= 1"),
        ([-1, 1], "rating >= 1"),
        ([20, 40, 60, 80, 100], "rating >= 80"),
        ([5], None),
        ([4, 5], None),
        ([-2, -1], None),
        (range(100), None),
    ],
)
def test_the_rule_fits_the_scale(values: list[float], rule: str | None) -> None:
    counts = dict.fromkeys(map(float, values), 3)
    assert suggested_rule(counts) == rule
    assert (ratings_sentence("log.csv", counts) is None) == (rule is None)


def test_the_distribution_is_told(tmp_path: Path) -> None:
    rows = [0.5] * 10 + [3.0] * 40 + [4.0] * 30 + [5.0] * 20
    path = tmp_path / "log.csv"
    path.write_text("user,item,rating\n" + "".join(f"{n},{n % 7},{r}\n" for n, r in enumerate(rows)))
    log = Interactions.read(path)
    assert log.report is not None and log.report.notes == (
        "every rating in log.csv counts as an interaction, the lowest too (0.5: 10 %, 3: 40 %, 4: 30 %, "
        '5: 20 %); for the good ones alone, 50 % of the rows, use `positive="rating >= 4"`',
    )
    for options in ({"positive": "rating >= 1"}, {"weight": "rating"}, {"by_row": True}):
        chosen = Interactions.read(path, **options)
        assert chosen.report is not None and chosen.report.notes == ()


def test_counts_are_offered_as_weights(tmp_path: Path) -> None:
    path = tmp_path / "plays.tsv"
    path.write_text("userID\tartistID\tplays\n1\t5\t13\n1\t6\t1\n2\t5\t2\n")
    log = Interactions.read(path)
    assert log.report is not None and not log.weighted
    (note,) = log.report.notes
    assert 'positive="plays >= 3"' in note and 'weight="plays"' in note
    weighted = Interactions.read(path, weight="plays")
    assert weighted.matrix.toarray().tolist() == [[13, 1], [2, 0]]
    chosen = Interactions.read(path, positive="plays >= 3")
    assert chosen.n_interactions == 1
    for log in (weighted, chosen):
        assert log.report is not None and log.report.notes == ()


def test_zeros_that_may_be_no_ratings() -> None:
    counts = {float(value): 10 for value in range(1, 11)}
    assert "no rating was given" in str(ratings_sentence("log", {**counts, 0.0: 90}))
    assert "no rating was given" not in str(ratings_sentence("log", {**counts, 0.0: 1}))


def test_very_uneven_weights_are_worth_a_word() -> None:
    def notes(*weights: float) -> tuple[str, ...]:
        users = [str(number) for number in range(len(weights))]
        log = Interactions.from_frame({"user": users, "item": ["a"] * len(weights), "weight": list(weights)})
        assert log.report is not None
        return log.report.notes

    assert notes(1, 999) == () and notes(0.0, 5, 2000) == ()
    (note,) = notes(2, 3, 4000)
    assert "go from 2 to 4,000" in note and "logarithm" in note
