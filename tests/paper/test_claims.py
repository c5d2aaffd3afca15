"""What is concluded from records, on records whose conclusion is plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infrec.paper import get, published
from infrec.paper.cells import Data, pairs
from infrec.paper.model_selection import kendall
from infrec.paper.results import Results, rows_of
from infrec.report.document import Claim
from tests.paper.made import record, write

PUBLISHED = pairs(mode="published")


def verdicts(root: Path, name: str) -> dict[str, Claim]:
    claims = get(name).findings(Results.at(root, name)).claims
    return {claim.text: claim for claim in claims if claim.dataset == "ml-1m"}


def found(claims: dict[str, Claim], words: str) -> Claim:
    (one,) = (claim for text, claim in claims.items() if words in text)
    return one


def table(root: Path, ours: float, ease: float, distilled: float, rivals: int = 7) -> dict[str, Claim]:
    values = dict.fromkeys(published.COLUMNS[:7][:rivals], 10.0) | {"ease": ease}
    write(root, "table1", *(record("ml-1m", model, value) for model, value in values.items()))
    write(root, "table1", record("ml-1m", "infinite-ae", ours))
    write(
        root,
        "table1",
        record("ml-1m", "infinite-ae", distilled, data=Data("distill-cf", 500, settings=PUBLISHED)),
    )
    return verdicts(root, "table1")


def test_a_lead_over_everybody_holds(tmp_path: Path) -> None:
    claims = table(tmp_path, ours=32, ease=30, distilled=31)
    assert found(claims, "∞-AE beats every competitor").verdict == "holds"
    assert found(claims, "beats every competitor trained on the full").verdict == "holds"
    share = found(claims, "96–105 %")
    assert share.verdict == "holds"
    assert "96.9 %" in share.figures  # 31 of 32


def test_one_better_competitor_is_enough(tmp_path: Path) -> None:
    claims = table(tmp_path, ours=32, ease=33, distilled=30)
    lost = found(claims, "∞-AE beats every competitor")
    assert lost.verdict == "does not hold"
    assert "EASE 33.00" in lost.figures
    assert found(claims, "96–105 %").verdict == "does not hold"  # 30 of 32: 93.75 %


def test_a_competitor_that_was_not_measured_leaves_it_open(tmp_path: Path) -> None:
    claims = table(tmp_path, ours=32, ease=30, distilled=31, rivals=5)
    one = found(claims, "∞-AE beats every competitor")
    assert one.verdict == "cannot be tested here"
    assert "MVAE" in one.figures


def test_paper_values_stand_beside_ours_only_where_they_belong(tmp_path: Path) -> None:
    made = [
        record("ml-1m", "ease", 32.26),
        record("ml-1m", "ease", 20.0, data=Data(noise=5.0)),
        record("ml-1m", "ease", 20.0, data=Data("user-rns", 500)),
        record("ml-1m", "infinite-ae", 31.0, data=Data("distill-cf", 500, settings=PUBLISHED)),
        record("ml-1m", "infinite-ae", 31.0, data=Data("distill-cf", 100, settings=PUBLISHED)),
        record("demo", "ease", 40.0),
    ]
    papers = {(r.dataset, r.source, r.users, r.noise): r.paper for r in rows_of(made) if r.metric == "HR@10"}
    assert papers == {
        ("ml-1m", "full", 1000, 0.0): 28.54,
        ("ml-1m", "full", 1000, 5.0): None,
        ("ml-1m", "user-rns", 500, 0.0): None,
        ("ml-1m", "distill-cf-published", 500, 0.0): 31.16,
        ("ml-1m", "distill-cf-published", 100, 0.0): None,
        ("demo", "full", 1000, 0.0): None,
    }


def test_every_published_cell_is_a_row_with_its_value(tmp_path: Path) -> None:
    write(tmp_path, "table1", record("magazine", "poprec", 14.0))
    rows = get("table1").rows(Results.at(tmp_path, "table1"))
    papers = {(row["model"], row["metric"]): row["paper"] for row in rows}
    expected = {(m, metric): v for (d, m, metric), v in published.table1().items() if d == "magazine"}
    assert len(expected) == 54
    assert papers == expected
    assert {row["value"] for row in rows if row["model"] == "poprec"} == {14.0, 0.14}
    assert all(row["value"] is None for row in rows if row["model"] != "poprec")


def test_seeds_are_brought_together() -> None:
    made = [
        record("demo", "ease", 10.0 + seed, data=Data("user-rns", 50), seed=seed, half=1.0)
        for seed in (1, 2, 3)
    ]
    (row,) = [row for row in rows_of(made) if row.metric == "HR@10"]
    assert (row.value, row.least, row.most, row.seeds) == (12.0, 11.0, 13.0, 3)
    assert (row.low, row.high) == (11.0, 13.0)


def test_newly_committed_settings_replace_the_old_ones() -> None:
    made = [
        record("demo", "mf", 10.0, settings={"latent": 8}),
        record("demo", "mf", 20.0, settings={"latent": 64}),
    ]
    assert [row.value for row in rows_of(made) if row.metric == "HR@10"] == [20.0]


def test_quick_records_step_aside_for_real_ones(tmp_path: Path) -> None:
    quick = record(
        "demo",
        "ease",
        5.0,
        data=Data("distill-cf", 50, settings=pairs(steps=24, validate_every=8)),
        quick=True,
    )
    write(tmp_path, "transfer-ease", quick)
    assert len(Results.at(tmp_path, "transfer-ease").records) == 1
    write(tmp_path, "transfer-ease", record("demo", "ease", 9.0, data=Data("distill-cf", 50)))
    values = [row.value for row in Results.at(tmp_path, "transfer-ease").rows if row.metric == "HR@10"]
    assert values == [9.0]


def curves(root: Path, name: str, model: str, **values: dict[int, float]) -> dict[str, Claim]:
    write(root, name, record("ml-1m", model, 30.0, users=6400))
    for source, points in values.items():
        for users, value in points.items():
            write(root, name, record("ml-1m", model, value, data=Data(source.replace("_", "-"), users)))
    return verdicts(root, name)


LINE = {100: 12.0, 400: 18.0, 1600: 24.0}  # six for each factor of four: straight on a logarithmic axis


def test_a_straight_line_is_near_and_a_saturated_curve_is_not(tmp_path: Path) -> None:
    bent = {100: 10.0, 400: 29.0, 1600: 29.5}
    claims = curves(
        tmp_path / "a", "sample-efficiency", "infinite-ae", user_rns=LINE, head_user={**LINE, 400: 17.0}
    )
    assert found(claims, "near the line").verdict == "holds"
    assert "User-RNS 0.0 %" in found(claims, "near the line").figures
    assert found(claims, "User-RNS is slightly").verdict == "holds"
    claims = curves(tmp_path / "b", "sample-efficiency", "infinite-ae", user_rns=bent, head_user=LINE)
    assert found(claims, "near the line").verdict == "does not hold"


def test_saturation_is_about_500_users_and_more(tmp_path: Path) -> None:
    rising = {100: 10.0, 500: 20.0, 2000: 29.0}
    claims = curves(
        tmp_path / "a", "sample-efficiency", "infinite-ae", distill_cf={100: 26.0, 500: 29.0, 2000: 29.4}
    )
    assert found(claims, "saturates").ours == "holds"
    assert found(claims, "saturates").verdict == "cannot be tested here"  # nothing of the paper's kind
    claims = curves(tmp_path / "b", "sample-efficiency", "infinite-ae", distill_cf=rising)
    assert found(claims, "saturates").ours == "does not hold"
    claims = curves(tmp_path / "c", "sample-efficiency", "infinite-ae", user_rns=LINE)
    assert found(claims, "saturates").ours == "cannot be tested here"


def test_transfer_needs_quality_and_a_lead(tmp_path: Path) -> None:
    claims = curves(tmp_path / "a", "transfer-ease", "ease", user_rns={500: 25.0}, distill_cf={500: 29.0})
    assert found(claims, "transfer").ours == "holds"
    claims = curves(tmp_path / "b", "transfer-ease", "ease", user_rns={500: 29.5}, distill_cf={500: 29.0})
    assert found(claims, "transfer").ours == "does not hold"


def noisy(root: Path, name: str, model: str, values: dict[tuple[str, int | None, float], float]) -> None:
    for (source, users, noise), value in values.items():
        write(root, name, record("ml-1m", model, value, data=Data(source, users, noise)))


def test_noise_and_sampling(tmp_path: Path) -> None:
    noisy(
        tmp_path,
        "noise-samplers",
        "ease",
        {
            ("full", None, 0.0): 30.0,
            ("full", None, 5.0): 24.0,
            ("user-rns", 100, 0.0): 20.0,
            ("user-rns", 100, 5.0): 10.0,
            ("head-user", 100, 0.0): 18.0,
            ("head-user", 100, 5.0): 14.0,
            ("distill-cf", 100, 0.0): 25.0,
            ("distill-cf", 100, 5.0): 24.0,
        },
    )
    claims = verdicts(tmp_path, "noise-samplers")
    assert found(claims, "compounds").verdict == "holds"
    lead = found(claims, "best trade-off")
    assert lead.ours == "holds"
    assert "+5.00 at 0 %, +10.00 at 5 %" in lead.figures
    assert found(claims, "Head-user sampling gains").verdict == "holds"  # −10 % becomes +40 %


def test_noise_and_the_gap_to_ease(tmp_path: Path) -> None:
    shared: dict[tuple[str, int | None, float], float] = {
        ("full", None, 0.0): 32.0,
        ("full", None, 5.0): 28.0,
    }
    noisy(tmp_path, "noise-infinite-ae", "infinite-ae", shared)
    ease: dict[tuple[str, int | None, float], float] = {
        ("full", None, 0.0): 32.5,
        ("full", None, 5.0): 22.0,
        ("distill-cf", 100, 5.0): 25.0,
        ("distill-cf", 2000, 5.0): 23.0,
    }
    noisy(tmp_path, "noise-infinite-ae", "ease", ease)
    claims = verdicts(tmp_path, "noise-infinite-ae")
    gap = found(claims, "gap between")
    assert (gap.verdict, "−0.50 at 0 %, +6.00 at 5 %" in gap.figures) == ("holds", True)
    assert found(claims, "tiny distilled summary").ours == "holds"
    assert found(claims, "best on the smaller").ours == "holds"


def test_depth(tmp_path: Path) -> None:
    for name, values in {"down": (30.0, 29.0, 28.0), "up": (28.0, 29.0, 30.0)}.items():
        for depth, value in enumerate(values, 1):
            write(tmp_path / name, "depth", record("ml-1m", "infinite-ae", value, settings={"depth": depth}))
    assert found(verdicts(tmp_path / "down", "depth"), "worse with depth").verdict == "holds"
    assert found(verdicts(tmp_path / "up", "depth"), "worse with depth").verdict == "does not hold"
    for depth in (3, 4):  # no shallow one to compare with yet
        write(tmp_path / "deep", "depth", record("ml-1m", "infinite-ae", 30.0, settings={"depth": depth}))
    assert found(verdicts(tmp_path / "deep", "depth"), "worse with depth").verdict == "cannot be tested here"


def strata(*values: float) -> dict[str, Any]:
    rows = [
        {"low": at, "high": at + 1, "size": 10, "value": value, "interval": None}
        for at, value in enumerate(values)
    ]
    return {"users": rows, "items": rows}


def test_coldness(tmp_path: Path) -> None:
    for model in published.COLUMNS[:7]:
        write(tmp_path, "cold", record("ml-1m", model, 1.0, strata=strata(10, 20, 30)))
    write(tmp_path, "cold", record("ml-1m", "infinite-ae", 1.0, strata=strata(11, 21, 31)))
    assert found(verdicts(tmp_path, "cold"), "tail and head users").verdict == "holds"
    write(tmp_path, "cold", record("demo", "ease", 1.0, strata=strata(12, 20, 30)))
    write(tmp_path, "cold", record("demo", "infinite-ae", 1.0, strata=strata(11, 21, 31)))
    (lost,) = (c for c in get("cold").findings(Results.at(tmp_path, "cold")).claims if c.dataset == "demo")
    assert lost.verdict == "does not hold"
    assert "tail users 11.00 against EASE 12.00" in lost.figures


@pytest.mark.parametrize(
    ("a", "b", "tau"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3, 4], [2, 1, 3, 4], 4 / 6),
        ([1, 1], [1, 2], None),
    ],
)
def test_kendall(a: list[float], b: list[float], tau: float | None) -> None:
    assert kendall(a, b) == (tau if tau is None else pytest.approx(tau))


# ---- augmentation ------------------------------------------------------------------------------------------
def augmented(root: Path, made: float, best: float) -> Claim:
    sides = {"untrained": (0.5, 0.0), "trained": (0.1, 0.8), "real": (0.05, 0.9)}
    keys = ("popularity", "co_occurrence")
    looks = {"realism": {side: dict(zip(keys, of, strict=True)) for side, of in sides.items()}}
    write(
        root,
        "augmentation",
        record("ml-1m", "ease", 32.0),
        record("ml-1m", "ease", made, data=Data("ar-cf", 500), about=looks),
        record("ml-1m", "ease", best, data=Data("ar-cf", 2000), about=looks),
        record("ml-1m", "ease", 20.0, data=Data("user-rns", 500)),
        record("ml-1m", "ease", 29.0, data=Data("distill-cf", 500)),
    )
    return found(verdicts(root, "augmentation"), "impractical")


def test_augmented_users_far_below_distilled_ones(tmp_path: Path) -> None:
    one = augmented(tmp_path, made=15.0, best=20.0)
    assert one.ours == "holds"
    assert "62 % of 32.00" in one.figures and "User-RNS 20.00" in one.figures
    tables = get("augmentation").findings(Results.at(tmp_path, "augmentation")).tables
    assert ("2,000", "0.500", "0.100", "0.050", "0.000", "0.800", "0.900") in tables[-1].rows


@pytest.mark.parametrize(("made", "best"), [(29.5, 20.0), (15.0, 31.0)])
def test_augmented_users_that_are_good_enough(tmp_path: Path, made: float, best: float) -> None:
    """Above the distilled ones at some size, or near the full data at the largest."""
    assert augmented(tmp_path, made, best).ours == "does not hold"
