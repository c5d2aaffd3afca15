"""`infrec audit` and what `infrec distill` does for it, from the command line."""

from __future__ import annotations

import html
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infrec.cli.app import run
from infrec.cli.audit import _members, opened
from infrec.data import Interactions, Summary
from infrec.data.read import read_catalogue
from infrec.errors import DataError
from infrec.models import PopRec
from infrec.privacy import Released
from tests.cli.conftest import Infrec

pytestmark = pytest.mark.usefixtures("compiled_quickly")

RELEASED = ["interactions.parquet", "items.parquet", "manifest.json"]
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
    assert "40 of the control's 40 users have ids that are in --against too" in " ".join(shown.err.split())
    ran = infrec("audit", model, "--against", ratings, "--shadows", "4", "-o", tmp_path / "report")
    assert ran.code == 2 and "no control group" in ran.err


def test_a_model_of_the_train_part_is_attacked_with_train_histories(
    infrec: Infrec, ratings: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "train-only"
    words = ("--model", "infinite-ae", "--set", "reg=1", "--train-only", "-o", out)
    assert infrec("fit", ratings, *words).code == 0
    log = Interactions.read(ratings)
    released, about = opened(out)
    members, _, cut = _members(log, released, about, 42)
    assert cut and members.n_interactions == released.model.log.n_interactions < log.n_interactions
    whole, _, cut = _members(log, *opened(model), 42)
    assert not cut and whole.n_interactions == log.n_interactions
    ran = infrec("audit", out, "--against", ratings, "-o", tmp_path / "report", "--json")
    assert ran.code == 0 and ran.document["neighbours"]["copies"] == members.n_users
    # A model of somebody else's rows is no list of members.
    others = Released.of_model(PopRec().fit(Interactions.from_csr(np.ones((2, 2)), items=["a", "b"])))
    assert _members(log, others, {}, 42)[0] is log


def test_a_model_of_a_summary_has_no_shadows(
    infrec: Infrec, summary: Path, ratings: Path, tmp_path: Path
) -> None:
    """A shadow would be fitted on people's histories, which this model never saw."""
    assert infrec("fit", summary, "--set", "reg=1", "-o", tmp_path / "m").code == 0
    words = ("audit", tmp_path / "m", "--against", ratings, "--control", ratings, "-o", tmp_path / "report")
    ran = infrec(*words, "--shadows", "4")
    assert ran.code == 2 and "shadows cannot be made alike" in ran.err
    assert infrec(*words).code == 0


@pytest.mark.parametrize(
    ("text", "ids", "titles"),
    [
        ("item\n007\n7\n1e5\n", ["007", "1e5", "7"], None),
        ("item\n10\n9\n9\n", [9, 10], None),
        ("i2\ni1\n", ["i1", "i2"], None),
        ("12\n3\n", [3, 12], None),
        ("7,3.5\n12,4.0\n", [7, 12], None),
        ("movieId,title\n2,Two\n1,One\n", [1, 2], ["One", "Two"]),
        ("title,id\nOne,a\n,b\n", ["a", "b"], ["One", ""]),
        ("item\n2020-01-01\n", ["2020-01-01"], None),
        ("user,item,title\nu,b,B\nv,a,A\n", ["a", "b"], None),
        ("item,title,seen_by\nb,B,u\na,A,v\n", ["a", "b"], ["A", "B"]),
    ],
)
def test_a_catalogue_has_the_ids_that_a_log_has(
    text: str, ids: list[object], titles: list[str] | None, tmp_path: Path
) -> None:
    (tmp_path / "items.csv").write_text(text)
    items, info = read_catalogue(tmp_path / "items.csv")
    assert items.ids.to_pylist() == ids
    assert (None if info is None else info.to_pydict()) == (None if titles is None else {"title": titles})


def test_what_is_no_catalogue(tmp_path: Path) -> None:
    for text, says in (("title,item\nx,\n", "names no item"), ("code,price\na,b\n", "header"), ("", "empty")):
        (tmp_path / "items.csv").write_text(text)
        with pytest.raises(DataError, match=says):
            read_catalogue(tmp_path / "items.csv")
    table = pa.table({"code": ["b", "a"], "title": ["B", "A"]})
    pq.write_table(table, tmp_path / "items.parquet")
    items, info = read_catalogue(tmp_path / "items.parquet")
    assert items.ids.to_pylist() == ["a", "b"] and info is not None
    assert info.column("title").to_pylist() == ["A", "B"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", "3"), "promises nothing"),
        (("--epsilon", "3", "--delta", "0.1"), "at most"),
        (("--epsilon", "3", "--delta", "1e-6", "--start", "users"), "rows of real people"),
        (("--epsilon", "3", "--delta", "1e-6", "--target", "0.9"), "voids them"),
        (("--epsilon", "3", "--delta", "1e-6", "--search"), "voids them"),
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
    monkeypatch.setattr("infrec.distillation.dp_sums.STEPS", 20)
    catalogue = tmp_path / "items.csv"
    catalogue.write_text("item\n" + "".join(f"film {chr(97 + n)}\n" for n in range(26)))
    out = tmp_path / "guarded"
    words = ("--epsilon", "8", "--delta", "1e-6", "--catalogue", catalogue, "--set-aside", "0.2")
    ran = infrec("distill", ratings, *QUICK, *words, "-o", out, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["guarantee"]["epsilon"] == 8.0
    assert Summary.load(out).n_items == 26
    # The exact figures of the real log lie beside what may be passed on, and the command says so.
    beside = tmp_path / "guarded-card"
    assert sorted(each.name for each in out.iterdir()) == RELEASED
    assert ran.document["card"] == str(beside / "card.html")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert ratings.stem not in str(manifest) and "interactions" not in manifest["source"]
    assert f"{out} may be passed on" in ran.err and f"{beside} has exact figures" in ran.err
    page = (beside / "card.html").read_text(encoding="utf-8")
    assert "all interactions went into the noisy sums" in page
    assert "ε = 8, δ = 1e-06" in page and "adding or removing one user" in page and "Not covered" in page
    audited = infrec("audit", out, "--against", ratings, "--json")
    assert audited.code == 0, audited.err
    assert "ε = 8" in audited.document["findings"]
    assert audited.document["card"] == str(beside / "card.html")
    assert "What did attacks find?" in (beside / "card.html").read_text(encoding="utf-8")
    assert sorted(each.name for each in out.iterdir()) == RELEASED
    measured = infrec("evaluate", ratings, "--train-on", out, "--json")
    assert measured.code == 0 and "went into the noisy sums" in measured.err


def test_a_folder_where_the_card_would_go_is_not_touched(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "s-card"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    words = ("--noise-multiplier", "1", "--delta", "1e-6", "--out", tmp_path / "s")
    ran = infrec("distill", ratings, *words)
    assert ran.code == 2 and "holds 'notes.txt'" in " ".join(ran.err.split())
    assert [each.name for each in mine.iterdir()] == ["notes.txt"] and not (tmp_path / "s").exists()


def test_what_cannot_be_audited(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    ran = infrec("audit", tmp_path, "--against", ratings)
    assert ran.code == 1 and "expected a summary, a sample or a model" in ran.err
    assert infrec("audit", tmp_path).code == 2
