"""Re-identification as the paper measures it, on logs where it is plain who can be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.data.summary import Summary
from infrec.paper import deanonymise, get
from infrec.paper.cells import Cell, Data, pairs
from infrec.paper.deanonymise import Level
from infrec.paper.experiment import SEEDS, Plan
from infrec.paper.results import Results
from infrec.privacy.linkage import hits
from infrec.samplers import sample
from tests.paper.made import write
from tests.paper.test_claims import found, verdicts
from tests.privacy.test_matching import people


@pytest.fixture(scope="module")
def log() -> Interactions:
    return Interactions.from_csr(people(300))


@pytest.mark.parametrize("reveal", [0.1, 0.5, 0.9, 1.0])
def test_the_attackers_copy(log: Interactions, reveal: float) -> None:
    """25 items each: that share of them, rounded, and nothing else."""
    own = deanonymise.copy_of(log, Level(reveal, 0.0), seed=1)
    assert (np.diff(own.indptr) == {0.1: 2, 0.5: 12, 0.9: 22, 1.0: 25}[reveal]).all()
    assert (own.multiply(log.matrix) != own).nnz == 0


def test_noise_flips_that_share_of_all_items(log: Interactions) -> None:
    clean, noisy = (deanonymise.copy_of(log, Level(0.5, noise), seed=1) for noise in (0.0, 5.0))
    assert (abs(clean - noisy).sum(axis=1) == 20).all()  # 5 % of 400


def test_somebody_with_one_item_is_known_by_it_and_one_with_two_by_half() -> None:
    tiny = Interactions.from_csr(np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]]))
    for reveal in (0.01, 0.99):
        known = np.diff(deanonymise.copy_of(tiny, Level(reveal, 0.0), seed=1).indptr)
        assert known.tolist() == [1, 1, 1 if reveal < 0.5 else 2]


def metrics(lines: list[dict[str, Any]], model: str) -> dict[str, float]:
    (one,) = (line for line in lines if line["model"] == model)
    return one["metrics"]


def test_a_sampled_release_gives_its_users_away_and_nobody_else(log: Interactions) -> None:
    released = sample(log, strategy="user-rns", users=100, seed=1)
    everything = metrics(deanonymise.matched(log, released, Level(1.0, 0.0), seed=1), "matching")
    assert everything["identified"] == 100
    assert everything["mistaken"] == 0
    assert everything["strangers"] <= 2
    half, noisy = (
        metrics(deanonymise.matched(log, released, Level(0.5, noise), seed=1), "matching")
        for noise in (0.0, 5.0)
    )
    assert 90 < half["identified"] <= 100
    assert noisy["identified"] < half["identified"] - 20


def test_a_release_of_everybody_has_no_strangers(log: Interactions) -> None:
    (line,) = deanonymise.matched(log, log, Level(1.0, 0.0), seed=1)
    assert line["metrics"]["identified"] == 100
    assert "strangers" not in line["metrics"]


def test_a_summary_that_completes_everybody_is_caught() -> None:
    """Groups that own their items: a summary with a row for each names what is missing, popularity cannot."""
    groups = np.kron(np.eye(4), np.ones((10, 6)))
    log = Interactions.from_csr(groups)
    summary = Summary.of(Interactions.from_csr(np.kron(np.eye(4), np.ones((1, 6)))), about={"reg": 0.1})
    lines = deanonymise.predicted(log, summary, Level(0.5, 0.0), seed=1)
    assert metrics(lines, "infinite-ae") == {"identified": 100.0, "named": 100.0}
    assert metrics(lines, "poprec")["identified"] < 30
    unrelated = Summary.of(Interactions.from_csr(np.tile([[1.0, 0.0]], (4, 12))), about={"reg": 0.1})
    assert (
        metrics(deanonymise.predicted(log, unrelated, Level(0.5, 0.0), seed=1), "infinite-ae")["identified"]
        == 0
    )


def test_whoever_has_one_item_has_none_to_be_named() -> None:
    log = Interactions.from_csr(np.array([[1, 0, 0], [1, 1, 0]]))
    summary = Summary.of(log, about={"reg": 1.0})
    (line, _) = deanonymise.predicted(log, summary, Level(0.9, 0.0), seed=1)
    assert (
        line["metrics"]["identified"] == 100.0
    )  # of one user: the other item is the only one left that is known


def test_what_is_named_is_what_a_full_ranking_names() -> None:
    """Lists of another length for each user, with many equal scores: as a stable sort of all items has it."""
    rng = np.random.default_rng(3)
    likes = rng.random((40, 30)) < 0.3
    given = likes & (rng.random(likes.shape) < 0.5)
    counts = rng.integers(0, 6, 30)
    shares = hits(*(sp.csr_array(part.astype(np.float32)) for part in (given, likes & ~given)), counts=counts)
    for user in range(40):
        rest = np.flatnonzero(likes[user] & ~given[user])
        order = [i for i in np.argsort(-counts, kind="stable") if not given[user, i]]
        expected = len(set(order[: len(rest)]) & set(rest)) / max(1, len(rest))
        assert shares[user] == pytest.approx(expected)


# ---- the experiments ---------------------------------------------------------------------------------------
def test_levels_are_what_the_paper_has() -> None:
    plan = Plan(("ml-1m",), SEEDS[:3], {"ml-1m": 6040})
    levels = {
        name: {tuple(sorted(dict(cell.attack).items())) for cell in get(name).cells(plan)}
        for name in ("deanonymise-noise", "deanonymise-reveal")
    }
    noise = {dict(level)["noise"] for level in levels["deanonymise-noise"]}
    assert noise == {0.0, 0.5, 1.0, 2.0, 5.0}
    assert (("noise", 0.0), ("reveal", 1.0)) in levels["deanonymise-noise"]
    shares = {dict(level)["reveal"] for level in levels["deanonymise-reveal"]}
    assert shares == {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}


def test_an_attack_does_not_change_the_hash_of_other_cells() -> None:
    plain = Cell("ml-1m", 42, Data("user-rns", 500))
    assert "attack" not in plain.configuration
    other = Cell("ml-1m", 42, Data("user-rns", 500), attack=pairs(reveal=0.5, noise=0.0))
    assert other.hash != plain.hash


def attacked(source: str, level: Level, share: float, popular: float = 0.1) -> dict[str, Any]:
    known = pairs(reveal=level.reveal, noise=level.noise)
    cell = Cell("ml-1m", 42, Data(source, 500), label=level.label, attack=known)
    models = {"matching": share} if source == "user-rns" else {"infinite-ae": share, "poprec": popular}
    lines = [
        {"model": model, "settings": {}, "metrics": {"identified": value}, "intervals": {}}
        for model, value in models.items()
    ]
    return {
        "cell": cell.hash,
        "configuration": cell.configuration,
        "seed": 42,
        "data": {"users": 500},
        "measured": lines,
        "versions": {},
        "device": "cpu",
        "seconds": {"total": 1.0},
        "finished": "2026-11-16T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("sampled", "distilled", "verdict"),
    [(96.43, 0.86, "holds"), (96.0, 3.0, "does not hold"), (60.0, 0.0, "does not hold")],
)
def test_nobody_against_everybody(tmp_path: Path, sampled: float, distilled: float, verdict: str) -> None:
    level = Level(0.9, 0.0)
    records = [attacked("user-rns", level, sampled), attacked("distill-cf", level, distilled)]
    write(tmp_path, "deanonymise-reveal", *records)
    one = found(verdicts(tmp_path, "deanonymise-reveal"), "Nobody is re-identified")
    assert one.ours == verdict
    assert f"{distilled:.2f} %" in one.figures and "popularity alone" in one.figures
    table = get("deanonymise-reveal").findings(Results.at(tmp_path, "deanonymise-reveal")).tables[0]
    assert [row[0] for row in table.rows] == [level.label]  # what was not measured has no row


def test_noise_claims(tmp_path: Path) -> None:
    levels = [Level(0.5, noise) for noise in (0.0, 1.0, 5.0)]
    sampled = [attacked("user-rns", *each) for each in zip(levels, (95.0, 60.0, 20.0), strict=True)]
    write(tmp_path, "deanonymise-noise", *sampled, *(attacked("distill-cf", one, 0.2) for one in levels))
    claims = verdicts(tmp_path, "deanonymise-noise")
    assert found(claims, "even without noise").ours == "holds"
    assert found(claims, "fewer users").verdict == "holds"
    rising = attacked("user-rns", Level(0.5, 2.0), 70.0)
    write(tmp_path, "deanonymise-noise", rising)
    assert found(verdicts(tmp_path, "deanonymise-noise"), "fewer users").verdict == "does not hold"


def test_what_the_paper_has_stands_beside_it() -> None:
    assert deanonymise.PUBLISHED["douban", "user-rns"] == 96.43
