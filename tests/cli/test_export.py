"""`infrec export`: logs, samples and summaries for other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.sparse as sp

from infrec.cli.app import run
from infrec.data import Interactions
from tests.cli.conftest import Infrec


@pytest.fixture(scope="module")
def sample(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("samples") / "s"
    words = ["sample", str(ratings), "--strategy", "user-rns", "--users", "12", "--out", str(out), "--json"]
    assert run(words) == 0
    return out


@pytest.mark.parametrize(("format", "ending"), [("csv", "csv"), ("parquet", "parquet"), ("recbole", "inter")])
def test_a_log_is_exported_whole(
    format: str, ending: str, infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"log.{ending}"
    ran = infrec("export", ratings, "--positive", "rating >= 3", "--format", format, "--out", path, "--json")
    assert ran.code == 0
    log, again = Interactions.read(ratings, positive="rating >= 3"), Interactions.read(path)
    assert again.users == log.users and again.items == log.items
    assert (again.matrix != log.matrix).nnz == 0
    assert ran.document == {
        "source": str(ratings),
        "format": format,
        "files": [str(path)],
        "users": 40,
        "items": log.n_items,
        "interactions": log.n_interactions,
        "weighted": False,
        "bytes": path.stat().st_size,
    }


def test_a_sample_keeps_every_item_as_npz_and_as_recbole_folder(
    infrec: Infrec, sample: Path, tmp_path: Path
) -> None:
    assert infrec("export", sample, "--format", "npz", "--out", tmp_path / "s.npz", "--json").code == 0
    assert sp.load_npz(tmp_path / "s.npz").shape == (12, 24)
    document = infrec("export", sample, "--format", "recbole", "--out", tmp_path / "s", "--json").document
    assert document["files"] == [str(tmp_path / "s" / "s.inter"), str(tmp_path / "s" / "s.item")]
    assert len((tmp_path / "s" / "s.item").read_text().splitlines()) == 1 + 24


def test_what_is_left_out_is_told(infrec: Infrec, tmp_path: Path) -> None:
    log = tmp_path / "own.csv"
    log.write_text(
        "user,item,split\n"
        + "".join(f"{u},{i},{'test' if i == 2 else 'train'}\n" for u in "ab" for i in range(3))
    )
    assert "own split" in infrec("export", log, "--format", "npz", "--out", tmp_path / "x.npz").err
    assert "own split" not in infrec("export", log, "--format", "csv", "--out", tmp_path / "x.csv").err


def test_implicit_trains_on_an_exported_sample(
    infrec: Infrec, ratings: Path, sample: Path, tmp_path: Path
) -> None:
    """Users of the log, whom implicit has never seen, get items of their own taste (chance: one half)."""
    implicit = pytest.importorskip("implicit", reason="needs implicit, which the dev extra installs")
    infrec("export", sample, "--format", "npz", "--out", tmp_path / "s.npz")
    model = implicit.als.AlternatingLeastSquares(factors=4, iterations=15, random_state=1, num_threads=1)
    model.fit(sp.load_npz(tmp_path / "s.npz"), show_progress=False)
    histories = sp.csr_matrix(Interactions.read(ratings, positive="rating >= 3").matrix, copy=True)
    items, _ = model.recommend(list(range(40)), histories, N=3, recalculate_user=True)
    right = [item % 2 == user % 2 for user in range(40) for item in items[user]]
    assert sum(right) / len(right) > 0.8


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--format", "xls", "--out", "x"), 2, "xls"),
        (("--format", "csv"), 2, "--out"),
        (("--format", "csv", "--out", "."), 1, "is a directory"),
    ],
)
def test_wrong_usage_is_told(
    options: tuple[str, ...],
    code: int,
    words: str,
    infrec: Infrec,
    ratings: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = infrec("export", ratings, *options, "--json")
    assert ran.code == code
    assert words in ran.document["error"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_no_log(infrec: Infrec, model: Path, tmp_path: Path) -> None:
    ran = infrec("export", model, "--format", "csv", "--out", tmp_path / "x.csv", "--json")
    assert ran.code == 1
    assert "holds a model; expected a summary or a sample" in ran.document["error"]["message"]
