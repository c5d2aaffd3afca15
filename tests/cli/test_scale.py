"""Large logs on the command line: prepare, fit with few centres, evaluate a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrec import artifacts
from tests.cli.conftest import Infrec


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from infrec.data.synthetic import write_log

    return write_log(
        tmp_path_factory.mktemp("log") / "log.parquet", users=300, items=120, interactions=6000, seed=3
    )


def test_prepare_then_use_it_as_data(infrec: Infrec, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "prepared"
    ran = infrec("datasets", "prepare", log, "--positive", "rating >= 3", "--out", out, "--json")
    assert ran.code == 0, ran.err
    made = ran.document
    assert (made["users"], made["partitions"], made["out"]) == (300, 6, str(out))
    assert made["rows"] == 6000 == made["interactions"] + made["dropped"]["not rating >= 3"]
    direct = infrec("datasets", "stats", log, "--positive", "rating >= 3", "--json").document
    found = infrec("datasets", "stats", out, "--json").document
    for key in ("users", "items", "interactions", "per_user", "per_item", "times", "read"):
        assert found[key] == direct[key]
    refused = infrec("datasets", "stats", out, "--positive", "rating >= 4", "--json")
    assert refused.code == 2 and "prepared dataset" in refused.document["error"]["message"]
    words = infrec("datasets", "prepare", log, "--out", out)
    assert words.code == 0 and "6,000 interactions of 300 users" in " ".join(words.out.split())


def test_prepare_refuses_what_is_not_a_dataset(infrec: Infrec, log: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    ran = infrec("datasets", "prepare", log, "--out", tmp_path / "mine", "--json")
    assert ran.code == 1 and "did not write" in ran.document["error"]["message"]
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    infrec("fit", log, "-m", "poprec", "-o", tmp_path / "model")
    ran = infrec("datasets", "prepare", log, "--out", tmp_path / "model", "--json")
    assert ran.code == 1 and "holds a model" in ran.document["error"]["message"]


def test_fit_with_few_centres(infrec: Infrec, log: Path, tmp_path: Path) -> None:
    ran = infrec("fit", log, "--centres", "50", "-o", tmp_path / "m", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["selected"]["solver"] == "nystrom" and ran.document["selected"]["centres"] == 50
    assert artifacts.read(tmp_path / "m").arrays["alpha"].shape[0] == 50
    assert infrec("recommend", tmp_path / "m", "--user", "17", "--json").document["recommendations"]
    exact = infrec("fit", log, "-o", tmp_path / "e")
    assert "exact: an exact fit of 300 users needs" in " ".join(exact.err.split())
    manifest = artifacts.read(tmp_path / "e").manifest
    assert manifest["about"]["solver"] == "exact" and "300 users needs" in manifest["about"]["why"]


def test_evaluate_a_sample(infrec: Infrec, log: Path) -> None:
    ran = infrec("evaluate", log, "-m", "poprec", "--sample-users", "40", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["users"] == {"measured": 40, "of": 300, "judged": 300}
    low, high = ran.document["intervals"]["HR@10"]
    assert low < ran.document["metrics"]["HR@10"] < high
    words = infrec("evaluate", log, "-m", "poprec", "--sample-users", "40")
    assert "random sample of 40 of 300 users" in " ".join(words.out.split())
