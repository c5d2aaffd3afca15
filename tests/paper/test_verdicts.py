"""Verdicts: intervals of what is made of several rows, and answers of which some are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from infrec.paper import get, verdicts
from infrec.paper.cells import Data, pairs
from infrec.paper.experiment import WIDE, Plan
from infrec.paper.results import Results, Row, rows_of
from infrec.paper.verdicts import Answer, every, margin, most, some
from infrec.report.document import Claim
from tests.paper.made import record, write

ANSWERS = st.lists(st.sampled_from([True, False, None]), max_size=7)
UNDECIDED = "undecided within the intervals"


def row(value: float, half: float = 0.0, by_seed: Sequence[float] = (), groups: Sequence[float] = ()) -> Row:
    (one,) = (row for row in rows_of([record("demo", "ease", value, half=half)]) if row.metric == "HR@10")
    return replace(one, by_seed=tuple(enumerate(by_seed)), groups=tuple(groups))


# ---- intervals ---------------------------------------------------------------------------------------------
def test_paired_groups_are_student_s_paired_test() -> None:
    """The jackknife of a difference of means is the classical interval, here as scipy has it."""
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(30, 5, 50), rng.normal(29, 5, 50)
    one, other = (row(float(own.mean()), 9.0, groups=own) for own in (ours, theirs))
    found = verdicts.estimate(lambda a, b: a - b, one, other)
    low, high = ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


def test_pairs_decide_what_single_intervals_leave_open() -> None:
    """Half a point ahead in every group of users, which differ by far more than that."""
    theirs = np.linspace(10, 50, 50)
    one, other = row(30.5, 3.0, groups=theirs + 0.5), row(30.0, 3.0, groups=theirs)
    assert margin(one, other) is True and margin(other, one) is False
    assert margin(replace(one, groups=()), other) is None  # an older record: as if independent
    found = verdicts.estimate(lambda a, b: a - b, replace(one, groups=()), other)
    assert found.high - found.value == pytest.approx(sqrt(2) * 3.0)


def test_seeds_add_their_own_doubt() -> None:
    """Differences of 1, 2 and 3: Student's interval is 2 ± 4.303 / √3."""
    one, other = row(12.0, by_seed=(11, 12, 13)), row(10.0, by_seed=(10, 10, 10))
    found = verdicts.estimate(lambda a, b: a - b, one, other)
    assert (found.value, found.high - found.value) == pytest.approx((2.0, 4.3027 / sqrt(3)), rel=1e-4)
    assert margin(one, other) is None
    assert margin(row(12.0, by_seed=(11.9, 12, 12.1)), row(10.0)) is True  # against one without chance


@given(ANSWERS)
def test_open_answers_could_still_turn_out_either_way(answers: list[Answer]) -> None:
    """An answer is given exactly when every way of closing the open ones agrees on it."""
    closed = [[fill if one is None else one for one in answers] for fill in (True, False)]
    best, worst = closed
    for combined, plain in (
        (every, all),
        (some, any),
        (most, lambda known: 2 * sum(known) > len(known)),
    ):
        ends = {bool(plain(best)), bool(plain(worst))}  # all three are monotonic
        assert combined(answers) == (ends.pop() if len(ends) == 1 else None)


# ---- claims ------------------------------------------------------------------------------------------------
def claim(root: Path, name: str, words: str) -> Claim:
    claims = get(name).findings(Results.at(root, name)).claims
    (one,) = (claim for claim in claims if words in claim.text and claim.dataset == "ml-1m")
    return one


def summaries(root: Path, name: str, model: str, values: dict[str, float], half: float = 0.01) -> None:
    for mode, value in values.items():
        data = Data("distill-cf", 500, settings=pairs() if mode == "discrete" else pairs(mode=mode))
        write(root, name, record("ml-1m", model, value, data=data, half=half))


@pytest.mark.parametrize(
    ("share", "half", "verdict"),
    [(100.0, 0.01, "holds"), (94.0, 0.01, "does not hold"), (107.0, 0.01, "does not hold"),
     (105.5, 1.0, UNDECIDED), (96.2, 1.0, UNDECIDED)],
)  # fmt: skip
def test_both_ends_of_a_range_are_tested(share: float, half: float, verdict: str, tmp_path: Path) -> None:
    write(tmp_path, "table1", record("ml-1m", "infinite-ae", 30.0, half=half))
    summaries(tmp_path, "table1", "infinite-ae", {"published": 0.3 * share, "discrete": 30.0}, half)
    one = claim(tmp_path, "table1", "96–105 %")
    assert (one.verdict, one.ours) == (verdict, "holds" if half < 1 else UNDECIDED)


def test_claims_about_summaries_have_two_verdicts(tmp_path: Path) -> None:
    """On the paper's own kind and on ours; what is not measured is not judged by the other."""
    write(tmp_path, "transfer-ease", record("ml-1m", "ease", 30.0))
    write(tmp_path, "transfer-ease", record("ml-1m", "ease", 20.0, data=Data("user-rns", 500)))
    summaries(tmp_path, "transfer-ease", "ease", {"discrete": 29.5})
    one = claim(tmp_path, "transfer-ease", "transfer")
    assert (one.verdict, one.ours) == ("cannot be tested here", "holds")
    summaries(tmp_path, "transfer-ease", "ease", {"published": 25.0})
    one = claim(tmp_path, "transfer-ease", "transfer")
    assert (one.verdict, one.ours) == ("does not hold", "holds")
    assert "As published: HR@10 with 500 users: distilled 25.00" in one.figures


def test_a_lead_within_the_intervals_is_undecided(tmp_path: Path) -> None:
    for ours, half, verdict in ((31.0, 1.0, UNDECIDED), (31.0, 0.1, "holds"), (29.0, 0.1, "does not hold")):
        root = tmp_path / f"{ours} {half}"
        for model in ("poprec", "bias-only", "mf", "neumf", "lightgcn", "ease", "mvae"):
            write(root, "table1", record("ml-1m", model, 30.0, half=half))
        write(root, "table1", record("ml-1m", "infinite-ae", ours, half=half))
        assert claim(root, "table1", "∞-AE beats every competitor").verdict == verdict


# ---- grids of λ --------------------------------------------------------------------------------------------
def test_a_choice_at_the_edge_of_its_grid_is_flagged(tmp_path: Path) -> None:
    """The edges are those of what validation could judge: λ = 0 is listed without a score."""
    for users, chosen in ((50, 1), (100, 5), (200, 20)):
        one = record("ml-1m", "ease", 20.0, data=Data("user-rns", users))
        scores = {0: None, 1: 3.0, 5: 4.0, 20: 2.0}
        tried = [{"settings": {"reg": reg}, "score": score} for reg, score in scores.items()]
        one["measured"][0] |= {"selected": {"reg": chosen}, "tried": tried}
        write(tmp_path, "transfer-ease", one)
    results = Results.at(tmp_path, "transfer-ease")
    assert {row.users: row.edge for row in results.rows.where(metric="HR@10")} == {50: 1, 100: 0, 200: 1}
    (table,) = get("transfer-ease").findings(results).tables
    (line,) = table.rows
    notes = [cell.note for cell in line[1:] if not isinstance(cell, str)]
    assert notes[:3] == ["λ at the edge", "", "λ at the edge"]


def test_grids_are_wider_where_lambda_lies_elsewhere() -> None:
    """On samples, summaries and noise; the cells of whole logs keep their grid, and with it their hash."""
    plan = Plan(("ml-1m",), (42,), {"ml-1m": 6040})
    for name in ("transfer-ease", "noise-samplers", "noise-infinite-ae", "augmentation", "sample-efficiency"):
        for cell in get(name).cells(plan):
            (fit,), own = cell.fits, dict(cell.fits[0].space)
            whole = cell.data == Data()
            brings = fit.model == "infinite-ae" and cell.data.source == "distill-cf"
            assert own == ({} if whole or brings else {"reg": WIDE[fit.model]}), cell.words
    for model, grid in WIDE.items():
        assert list(grid) == sorted(set(grid)) and max(grid) >= 10_000, model


def test_records_of_a_later_grid_replace_those_of_an_earlier_one() -> None:
    """They have other hashes and stand beside each other on disk: means must not be of both."""
    data = Data("user-rns", 50)
    made = [record("demo", "ease", 10.0, data=data, seed=seed) for seed in (42, 1)]
    made += [record("demo", "ease", 20.0, data=data, space={"reg": (1, 2)})]
    (one,) = (row for row in rows_of(made) if row.metric == "HR@10")
    assert (one.value, one.seeds) == (20.0, 1)
    assert made[0]["cell"] != made[-1]["cell"]
