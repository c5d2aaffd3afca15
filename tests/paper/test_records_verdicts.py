"""What the paper says, and no more or less, is what is tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import kendalltau

from infrec.paper import get, published, table1
from infrec.paper.cells import Data, pairs
from infrec.paper.model_selection import kendall, seconds
from infrec.paper.results import Results
from infrec.report.document import Claim
from tests.paper.made import record, write

HISTORY = (0, 25, 50, 75)


def claims(root: Path, name: str, words: str) -> Claim:
    found = get(name).findings(Results.at(root, name)).claims
    (one,) = (claim for claim in found if claim.dataset == "ml-1m" and words in claim.text)
    return one


# ---- noise -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ((32.0, 31.0, 29.0), "holds"),
        ((32.0, 20.0, 29.0), "does not hold"),
        ((32.0, 31.9, 24.9), "does not hold"),
    ],
)
def test_a_gap_that_falls_first_does_not_grow(ours: tuple[float, ...], verdict: str, tmp_path: Path) -> None:
    """The gap to EASE is −0.5, then +1, −10 or +1.9, then +4 or −0.1."""
    for noise, own, ease in zip((0.0, 1.0, 5.0), ours, (32.5, 30.0, 25.0), strict=True):
        for model, value in (("infinite-ae", own), ("ease", ease)):
            write(tmp_path, "noise-infinite-ae", record("ml-1m", model, value, data=Data(noise=noise)))
    assert claims(tmp_path, "noise-infinite-ae", "gap between").verdict == verdict


def test_compounding_tells_how_many_and_how_much(tmp_path: Path) -> None:
    for source, users, clean, noisy in (
        ("full", None, 32.0, 30.0),
        ("user-rns", 100, 20.0, 16.0),
        ("interaction-rns", 100, 8.896, 9.1),
    ):
        for noise, value in ((0.0, clean), (5.0, noisy)):
            write(tmp_path, "noise-samplers", record("ml-1m", "ease", value, data=Data(source, users, noise)))
    one = claims(tmp_path, "noise-samplers", "compounds")
    assert one.verdict == "does not hold"
    assert one.figures.startswith("1 of 2 samples lose more")
    assert "Interaction-RNS 100: 71.6 against 72.2" in one.figures


# ---- transfer ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mvae", "ease", "ours", "verdict"),
    [(16.0, 12.0, 17.0, "holds"), (16.0, 14.5, 17.0, "does not hold"), (16.0, 12.0, 11.0, "does not hold")],
)
def test_interactions_must_scale_as_for_our_model_and_not_as_for_ease(
    mvae: float, ease: float, ours: float, verdict: str, tmp_path: Path
) -> None:
    """User-RNS has 20 everywhere, so the shares are 0.8 for MVAE and twentieths of the others."""
    of = {
        "transfer-mvae": ("mvae", mvae),
        "transfer-ease": ("ease", ease),
        "sample-efficiency": ("infinite-ae", ours),
    }
    for name, (model, value) in of.items():
        for source, each in (("user-rns", 20.0), ("interaction-rns", value)):
            write(tmp_path, name, record("ml-1m", model, each, data=Data(source, 100)))
    one = claims(tmp_path, "transfer-mvae", "Interaction-RNS")
    assert one.verdict == verdict
    assert "0.800 for MVAE" in one.figures


# ---- depth -------------------------------------------------------------------------------------------------
def test_depth_tends_to_hurt_when_most_metrics_say_so(tmp_path: Path) -> None:
    """Two of six metrics may be best at depth 3; with three, it is no tendency any more."""
    for others, verdict in ((2, "holds"), (3, "does not hold")):
        for deep, value in ((1, 30.0), (2, 29.0), (3, 28.0)):
            made = record("ml-1m", "infinite-ae", value, settings={"depth": deep})
            for metric in published.METRICS[:others]:
                made["measured"][0]["metrics"][metric] += 5.0 * (deep == 3)
            write(tmp_path / verdict, "depth", made)
        assert claims(tmp_path / verdict, "depth", "worse with depth").verdict == verdict


# ---- Table 1 -----------------------------------------------------------------------------------------------
def test_the_paper_s_own_figures_stand_beside_the_verdict(tmp_path: Path) -> None:
    """In the paper, LightGCN is ahead of ∞-AE on magazine in HR@10: 27.12 against 27.09."""
    for model in published.COLUMNS[:-1]:
        value = 21.0 if model == "infinite-ae" else 20.0
        write(tmp_path, "table1", record("magazine", model, value))
    found = get("table1").findings(Results.at(tmp_path, "table1"))
    (one,) = (c for c in found.claims if c.dataset == "magazine" and c.text == table1.beats_all.text)
    assert one.verdict == "holds"
    assert "the paper's own figures: ahead in 5 of 6" in one.figures


def test_the_published_recipe_comes_first_among_the_summaries(tmp_path: Path) -> None:
    for mode in ("discrete", "soft", "published"):
        data = Data("distill-cf", 500, settings=pairs() if mode == "discrete" else pairs(mode=mode))
        write(tmp_path, "table1", record("ml-1m", "infinite-ae", 30.0, data=data))
    (table,) = get("table1").findings(Results.at(tmp_path, "table1")).tables
    modes = [str(line[0]) for line in table.rows if "Distill-CF" in str(line[0])]
    assert [mode.split("(")[1].split(")")[0] for mode in modes] == ["as published", "fractional", "0/1"]
    assert len(table.rows) == 11  # the paper's nine columns, measured or not, and two modes of ours


# ---- ablation ----------------------------------------------------------------------------------------------
def made(value: float, history: tuple[float, ...] = (), seed: int = 42, **settings: Any) -> dict[str, Any]:
    curve = [{"step": step, "HR@100": v} for step, v in zip(HISTORY, history, strict=False)]
    data = Data("distill-cf", 500, settings=pairs(**settings))
    return record("ml-1m", "infinite-ae", value, data=data, seed=seed, about={"history": curve})


def fixed(reg: float) -> dict[str, Any]:
    return {"mode": "published", "rechoose": False, "reg": reg, "reg_grid": (reg,)}


def test_on_the_fly_is_about_speed_against_the_fixed_one_that_validation_chooses(tmp_path: Path) -> None:
    own = made(50.0, (10.0, 20.0, 40.0, 40.0), mode="published")
    early = made(60.0, (10.0, 39.8, 39.0, 38.0), **fixed(0.001))  # sooner, but not what validation chooses
    slow = made(60.0, (10.0, 20.0, 30.0, 41.0), **fixed(5.0))
    write(tmp_path / "slow", "ablation", own, early, slow)
    one = claims(tmp_path / "slow", "ablation", "on the fly")
    assert one.verdict == "holds"
    assert "39.60 after 50 steps, with λ fixed at 5 after 75" in one.figures
    write(tmp_path / "sooner", "ablation", own, made(40.0, (10.0, 41.0, 41.0, 41.0), **fixed(5.0)))
    assert claims(tmp_path / "sooner", "ablation", "on the fly").verdict == "does not hold"
    write(tmp_path / "level", "ablation", own, made(40.0, (10.0, 20.0, 40.0, 40.0), **fixed(5.0)))
    assert claims(tmp_path / "level", "ablation", "on the fly").verdict == "does not hold"


def test_gumbel_and_top_k_are_compared_where_both_are_sparse(tmp_path: Path) -> None:
    """Dense Gumbel (τ = 10) is another thing than 0/1 rows: nearly discrete Gumbel (τ = 0.7) decides."""
    write(tmp_path, "ablation", made(70.0, mode="published"), made(60.0))
    assert claims(tmp_path, "ablation", "top-k").verdict == "cannot be tested here"
    write(tmp_path, "ablation", made(59.0, mode="published", tau=0.7), made(50.0, hidden=0.0))
    one = claims(tmp_path, "ablation", "top-k")
    assert one.verdict == "does not hold"  # top-k as shipped, a fifth hidden, has 60
    assert "59.00 (0 hidden) against top-k 50.00 (0 hidden), 60.00 (0.2 hidden)" in one.figures
    write(tmp_path, "ablation", made(61.0, mode="published", tau=0.7, hidden=0.2))
    assert claims(tmp_path, "ablation", "top-k").verdict == "holds"


@pytest.mark.parametrize(
    ("entries", "weights", "verdict"),
    [
        ((60.0, 50.0, 30.0), (90.0, 80.0, 40.0), "holds"),
        ((60.0, 50.0, 30.0), (90.0, 80.0, 97.0), "does not hold"),  # rows become heavier, not sparser
        ((60.0, 90.0, 30.0), (90.0, 80.0, 40.0), "does not hold"),  # up first, whatever the ends say
    ],
)
def test_a_penalty_controls_sparsity_over_its_range_and_by_both_measures(
    entries: tuple[float, ...], weights: tuple[float, ...], verdict: str, tmp_path: Path
) -> None:
    for l1, count, weight in zip((0.0, 1.0, 100.0), entries, weights, strict=True):
        one = made(50.0, mode="published", tau=0.7, l1=l1)
        one["data"] |= {"above_half_per_user": count, "mass_per_user": weight}
        write(tmp_path, "ablation", one)
    assert claims(tmp_path, "ablation", "λ₂, the penalty").verdict == verdict
    assert claims(tmp_path, "ablation", "γ, the number").verdict == "cannot be tested here"


def test_seeds_that_differ_leave_it_undecided(tmp_path: Path) -> None:
    """With one seed, λ on the fly is sooner; with the other, later."""
    for seed, slow in ((42, 75), (1, 25)):
        theirs = tuple(41.0 if step >= slow else 10.0 for step in HISTORY)
        own = made(50.0, (10.0, 20.0, 40.0, 40.0), seed, mode="published")
        write(tmp_path, "ablation", own, made(60.0, theirs, seed, **fixed(5.0)))
    assert claims(tmp_path, "ablation", "on the fly").verdict == "undecided within the intervals"


def test_a_curve_ends_where_its_first_seed_ends(tmp_path: Path) -> None:
    """Beyond that, the mean would be another one's."""
    own = {"steps": 800, "validate_every": 25}
    for seed, curve in ((42, (10.0, 20.0)), (1, (20.0, 30.0, 90.0, 90.0))):
        write(tmp_path, "ablation", made(50.0, curve, seed, **own))
    found = get("ablation").findings(Results.at(tmp_path, "ablation"))
    (series,) = found.figures[0].panels[0].series
    assert [(point.x, point.value, point.seeds) for point in series.points] == [(0, 15.0, 2), (25, 25.0, 2)]
    assert "best validation HR@100 (25.00) after 25 of 25 steps" in found.claims[0].figures


# ---- selection ---------------------------------------------------------------------------------------------
def test_kendall_with_ties_is_scipy_s() -> None:
    a, b = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 4.0], [2.0, 2.0, 1.0, 3.0, 3.0, 9.0, 8.0]
    assert kendall(a, b) == pytest.approx(float(kendalltau(a, b).statistic))


def test_making_a_sample_costs_time_too() -> None:
    sampled = {
        **record("ml-1m", "ease", 1.0, data=Data("svp-cf", 100)),
        "seconds": {"data": 7.0, "total": 9.0},
    }
    assert seconds(sampled) == 8.0  # one second for the fit
    kept = record("ml-1m", "ease", 1.0, data=Data("distill-cf", 100), about={"distill_seconds": 30.0})
    assert seconds({**kept, "seconds": {"data": 0.1, "total": 2.0}}) == 31.0  # read from disk, made once
