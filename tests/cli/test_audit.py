"""`infrec audit` and what `infrec distill` does for it, from the command line."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from infrec.cli.app import run
from infrec.distillation import Summary
from tests.cli.conftest import Infrec

QUICK = ("--users", "8", "--steps", "4", "--per-user", "6", "--set", "validate_every=2")


@pytest.fixture(scope="module")
def summary(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 synthetic users of four fifths of the people, with a card."""
    out = tmp_path_factory.mktemp("audit") / "summary"
    assert run(["distill", str(ratings), *QUICK, "--set-aside", "0.2", "-o", str(out), "--json"]) == 0
    return out


def test_the_manifest_has_the_rule_and_not_the_names(summary: Path) -> None:
    about = Summary.load(summary).about
    assert about["set_aside"] == {"share": 0.2, "seed": 42}
    assert about["source"]["users"] < 40
    assert "It has not been attacked yet" in (summary / "card.html").read_text(encoding="utf-8")


def test_an_audit_from_end_to_end(infrec: Infrec, summary: Path, ratings: Path) -> None:
    ran = infrec("audit", summary, "--against", ratings, "--json")
    assert ran.code == 0, ran.err
    found = ran.document
    assert found["members"] + found["control"] == 40 and found["control"] > 0
    assert found["control_from"] == "users set aside at distillation"
    assert {each["known"] for each in found["linkage"]} <= {2, 4, 8, 16} and found["linkage"]
    for arm in ("attack", "popularity", "control"):
        assert 0 <= found["linkage"][0][arm]["value"] <= 1
    assert [each["score"] for each in found["membership"]] == ["distance", "model"]
    assert set(found["reconstruction"][0]["exact"]) == {"attack", "popularity", "control"}
    assert found["findings"] and found["worst"]
    page = html.unescape(Path(found["report"]).read_text(encoding="utf-8"))
    assert "Smoke alarm" in page and found["findings"].split(".")[0] in page
    # The card has the result and nobody's id.
    card = json.loads((summary / "card.json").read_text(encoding="utf-8"))
    assert card["audit"]["members"] == found["members"] and "worst" not in card["audit"]
    assert "What did attacks find?" in (summary / "card.html").read_text(encoding="utf-8")
    Summary.load(summary)  # the artifact itself is untouched


def test_without_a_control_membership_is_not_zero(
    infrec: Infrec, ratings: Path, model: Path, tmp_path: Path
) -> None:
    ran = infrec("audit", model, "--against", ratings, "-o", tmp_path / "report", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["membership"] == []
    assert ran.document["not_measured"]["membership"].startswith("not measurable")
    shown = infrec("audit", model, "--against", ratings, "--control", ratings, "-o", tmp_path / "report")
    assert shown.code == 0 and "audit.html" in shown.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", "3"), "promises nothing"),
        (("--epsilon", "3", "--delta", "0.1"), "at most"),
        (("--epsilon", "3", "--delta", "1e-6", "--start", "users"), "rows of real people"),
        (("--epsilon", "3", "--delta", "1e-6", "--target", "0.9"), "voids them"),
        (("--epsilon", "3", "--delta", "1e-6", "--search"), "voids them"),
        (("--epsilon", "3", "--delta", "1e-6", "--mechanism", "gradients"), "public list of items"),
        (("--set-aside", "2"), "a share above 0"),
    ],
)
def test_what_would_void_a_guarantee_is_wrong_usage(
    infrec: Infrec, ratings: Path, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    ran = infrec("distill", ratings, *words, "-o", tmp_path / "s")
    assert ran.code == 2 and says in ran.err
    assert not (tmp_path / "s").exists()


def test_distilling_with_a_guarantee(
    infrec: Infrec, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 40 users ε must be absurd for anything to be seen; what is tested is that all of it is said."""
    monkeypatch.setattr("infrec.distillation.population.STEPS", 20)
    catalogue = tmp_path / "items.csv"
    catalogue.write_text("item\n" + "".join(f"film {chr(97 + n)}\n" for n in range(26)))
    out = tmp_path / "guarded"
    words = ("--epsilon", "8", "--delta", "1e-6", "--catalogue", catalogue, "--set-aside", "0.2")
    ran = infrec("distill", ratings, *QUICK, *words, "-o", out, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["guarantee"]["epsilon"] == 8.0
    assert Summary.load(out).n_items == 26
    page = (out / "card.html").read_text(encoding="utf-8")
    assert "ε = 8, δ = 1e-06" in page and "adding or removing one user" in page and "Not covered" in page
    audited = infrec("audit", out, "--against", ratings, "--json")
    assert audited.code == 0, audited.err
    assert "ε = 8" in audited.document["findings"]
    assert infrec("evaluate", ratings, "--train-on", out, "--json").code == 0


def test_what_cannot_be_audited(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    ran = infrec("audit", tmp_path, "--against", ratings)
    assert ran.code == 1 and "expected a summary, a sample or a model" in ran.err
    assert infrec("audit", tmp_path).code == 2
