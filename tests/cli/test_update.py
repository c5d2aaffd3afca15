"""`infrec fit --update` and its neighbours: what they write, and one sentence where they write nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infrec import models
from infrec.evaluation import comparison
from infrec.models import EASE
from infrec.splits import Split
from tests.cli.conftest import Infrec

LINES = [(user, item) for user in range(12) for item in range(9) if (user + item) % 3]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two halves of a log, the second with a new user and a new item; times and plays."""
    rows = [f"u{u},i{i},{1 + (u * i) ** 4},{1_700_000_000 + 86_400 * u}" for u, i in LINES]
    head, late = "user,item,plays,timestamp", [row for row in rows if row.startswith(("u11,", "u3,"))]
    early = [row for row in rows if row not in late]
    (tmp_path / "early.csv").write_text("\n".join([head, *early]) + "\n")
    (tmp_path / "late.csv").write_text("\n".join([head, *late, "u3,new,1,1700000000"]) + "\n")
    (tmp_path / "all.csv").write_text("\n".join([head, *early, *late, "u3,new,1,1700000000"]) + "\n")
    return tmp_path


def test_update_then_forget(infrec: Infrec, files: Path) -> None:
    model, more, less = files / "model", files / "more", files / "less"
    assert infrec("fit", files / "early.csv", "-m", "ease", "--set", "reg=7", "-o", model).code == 0
    updated = infrec("fit", "--update", model, files / "late.csv", "-o", more, "--json")
    assert updated.code == 0 and "13 of 13 interactions are new to the model" in updated.err
    facts = updated.document
    assert (facts["model"], facts["updated"], facts["selected"]) == ("ease", str(model), {"reg": 7})
    whole = EASE(reg=7.0).fit(models.load(more).log)
    assert whole.log.n_users == 12 and "new" in list(whole.log.items)
    np.testing.assert_allclose(
        models.load(more).score(whole.log.matrix), whole.score(whole.log.matrix), atol=1e-5
    )
    forgot = infrec("fit", "--update", more, "--forget", "u3", "--forget", "u1", "-o", less)
    assert forgot.code == 0 and "2 users are forgotten" in forgot.err
    left = models.load(less).log
    assert left.n_users == 10 and not {"u3", "u1"} & set(left.users) and "new" in list(left.items)
    again = infrec("fit", "--update", more, files / "late.csv", "--choose-again", "-o", more, "--json")
    assert len(again.document["candidates"]) == 10


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--update", "model", "--forget", "nobody"], "does not know the user 'nobody'"),
        (["--update", "model", "other.csv"], "new item ids are whole numbers, such as 5"),
        (["--update", "model"], "--update has nothing to do"),
        (["--update", "model", "late.csv", "--set", "reg=3"], "--set belongs to a fit from scratch"),
        (["--update", "model", "late.csv", "-m", "ease"], "--model belongs to a fit from scratch"),
        (["--update", "trained", "late.csv"], "bias-only is trained by epochs and cannot be updated"),
        (["--update", "faded", "late.csv"], "fitted with a half-life of 30d"),
        (
            ["--update", "model", "late.csv", "--half-life", "30d"],
            "--half-life belongs to a fit from scratch",
        ),
        (["early.csv", "--forget", "u1"], "--forget and --choose-again go with --update"),
        ([], "DATA is missing"),
        (["other.csv", "--half-life", "30d"], "the log has no times"),
        (["early.csv", "--half-life", "30"], "half_life is '30'; expected"),
        (["early.csv", "--weight", "plays", "--weight-as", "cap:x"], "weight_as is 'cap:x'; expected"),
    ],
)
def test_one_sentence_and_nothing_is_written(
    infrec: Infrec, files: Path, words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    Path("other.csv").write_text("user,item\nu1,5\nu2,6\nu1,6\n")
    fits = {"model": ["-m", "poprec"], "faded": ["-m", "poprec", "--half-life", "30d"]}
    fits["trained"] = ["-m", "bias-only", "--set", "solver=epochs", "--set", "epochs=1"]
    for name, how in fits.items():
        if name in words:
            assert infrec("fit", "early.csv", "-o", name, *how).code == 0
    failed = infrec("fit", *words, "-o", "out")
    assert failed.code in (1, 2) and sentence in " ".join(failed.err.split())
    assert not Path("out").exists()


def test_times_and_counts_become_weights(infrec: Infrec, files: Path) -> None:
    """u11 played last: 30 days a half-life, u0 eleven days before."""
    out = files / "model"
    assert infrec("fit", files / "all.csv", "-m", "poprec", "--half-life", "11d", "-o", out).code == 0
    log = models.load(out).log
    weights = dict(zip(log.users, log.matrix.max(axis=1).toarray().ravel(), strict=True))
    assert weights["u11"] == 1 and weights["u0"] == pytest.approx(0.5, rel=1e-5)
    fitted = infrec("fit", files / "early.csv", "-m", "ease", "--weight", "plays", "-o", out, "--json")
    assert "weights count as" in fitted.err and set(fitted.document["about"]["weights"]) >= {"as", "mean"}
    words = ("-m", "ease", "--weight", "plays", "--weight-as", "log1p", "--set", "reg=5")
    assert infrec("fit", files / "early.csv", *words, "-o", out).code == 0
    mean = models.load(out).about["weights"]["mean"]
    assert infrec("fit", "--update", out, files / "late.csv", "--weight", "plays", "-o", out).code == 0
    log, about = models.load(out).log, models.load(out).about
    assert about["weights"]["mean"] == mean
    weight = log.matrix[log.users.positions(["u11"])[0], log.items.positions(["i2"])[0]]
    assert weight == pytest.approx(np.log1p(1 + 22**4) / mean, rel=1e-5)
    measured = infrec("evaluate", files / "all.csv", *words, "--json")
    assert measured.document["weights"]["as"] == "log1p"


def test_counts_are_made_even_before_they_fade(infrec: Infrec, files: Path) -> None:
    """The logarithm of plays, halved by age: not the logarithm of what is left of them."""
    fit = ("fit", files / "early.csv", "-m", "ease", "--set", "reg=5", "--weight", "plays", "-o")
    weights: list[np.ndarray] = []
    for name, more in (("even", ()), ("faded", ("--half-life", "10d"))):
        assert infrec(*fit, files / name, "--weight-as", "log1p", *more).code == 0
        weights.append(models.load(files / name).log.matrix.toarray())
    days = np.array([10 - int(user[1:]) for user in models.load(files / "faded").log.users])
    np.testing.assert_allclose(weights[1], weights[0] * 0.5 ** (days / 10)[:, None], rtol=1e-5)
    chosen = infrec(*fit, files / "chosen", "--half-life", "10d", "--json")
    assert set(chosen.document["about"]["weights"]["scores"]) > {"none", "log1p"}


def test_measured_weights_are_those_of_the_model(
    infrec: Infrec, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists under a wish are asked for with the weights that the model was fitted with, even and faded."""
    asked = []
    measure = comparison.trade

    def trade(model: Any, split: Split, *given: Any, **how: Any) -> Any:
        asked.append((model.log.matrix, split.train))
        return measure(model, split, *given, **how)

    monkeypatch.setattr(comparison, "trade", trade)
    words = ("evaluate", files / "early.csv", "-m", "ease", "--set", "reg=5", "--weight", "plays")
    options = ("--weight-as", "log1p", "--diversity", "0.3", "--json")
    for more in ((), ("--half-life", "9d")):
        assert infrec(*words, *options, *more).code == 0
    for fitted, measured in asked:
        np.testing.assert_array_equal(fitted.toarray(), measured.matrix.toarray())
    even, faded = (measured.matrix.toarray() for _, measured in asked)
    assert 0 < even.max() < 10  # plays go to 234,257
    days = np.array([10 - int(user[1:]) for user in asked[0][1].users])
    np.testing.assert_allclose(faded, even * 0.5 ** (days / 9)[:, None], rtol=1e-5)


def test_new_items_have_a_place_in_a_saved_model(infrec: Infrec, tmp_path: Path) -> None:
    rows = [f"u{u},i{i}" for u in range(40) for i in range(24) if (u + i) % 2 == 0 and (u * i) % 5 != 1]
    (tmp_path / "log.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    genres = [f"i{i},{'even' if i % 2 == 0 else 'odd'}" for i in range(24)]
    (tmp_path / "items.csv").write_text("\n".join(["item,genres", *genres, "new,odd", "young,even"]) + "\n")
    words = ("fit", tmp_path / "log.csv", "--items", tmp_path / "items.csv", "-o", tmp_path / "m")
    fitted = infrec(*words, "--new-items", "--json")
    assert fitted.code == 0 and "2 items that nobody has are placed by genres" in fitted.err
    assert fitted.document["about"]["new_items"]["items"] == 2
    lists = infrec("recommend", tmp_path / "m", "--user", "u1", "-k", "26", "--json").document
    order = [row["item"] for row in lists["recommendations"]]
    assert order.index("new") < order.index("young")
    assert "--new-items too" in infrec(*words, "--features", "genres").err
    assert "no column 'studio'" in infrec(*words, "--new-items", "--features", "studio").err
    none = infrec("fit", tmp_path / "log.csv", "--new-items", "-o", tmp_path / "none")
    assert none.code == 1 and "--items FILE" in none.err and not (tmp_path / "none").exists()
