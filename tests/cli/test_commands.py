"""Each command end to end: its JSON document, key by key, and what a person sees."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infrec import Interactions, __version__, load
from tests.cli.conftest import Infrec

EVALUATE = {
    *("dataset", "model", "protocol", "selected", "metrics", "intervals", "seconds", "peak_rss_mb", "device"),
    *("candidates", "about", "users", "split"),
}
METRICS = {"AUC", "HR@10", "HR@100", "NDCG@10", "NDCG@100", "PSP@10", "PSP@100"}


def test_version_and_help(infrec: Infrec) -> None:
    assert infrec("--version").out.strip() == f"infrec {__version__}"
    ran = infrec("--help")
    assert ran.code == 0
    for command in ("demo", "datasets", "fit", "recommend", "evaluate", "doctor"):
        assert command in ran.out


def test_start_up_imports_nothing_heavy() -> None:
    """`infrec --help` must not wait for JAX, scipy, Arrow or matplotlib, nor for a reader of Markdown."""
    code = (
        "import sys; from infrec.cli.app import run; code = run(['--help']); "
        "heavy = {'jax', 'scipy', 'pyarrow', 'matplotlib', 'numpy', 'markdown_it', 'pygments', 'email'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(str(heavy) if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- evaluate ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["infinite-ae", "ease", "poprec"])
def test_evaluate_keeps_its_contract(infrec: Infrec, ratings: Path, name: str) -> None:
    ran = infrec("evaluate", ratings, "--model", name, "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert set(document) == EVALUATE
    assert (document["model"], document["protocol"]) == (name, "paper-code")
    assert document["dataset"] == str(ratings)
    assert set(document["metrics"]) >= METRICS
    assert set(document["intervals"]) >= METRICS
    for metric in METRICS:
        low, high = document["intervals"][metric]
        assert low <= document["metrics"][metric] <= high
    assert set(document["seconds"]) == {"load", "fit", "evaluate", "total"}
    parts = sum(document["seconds"][part] for part in ("load", "fit", "evaluate"))
    assert 0 < parts <= document["seconds"]["total"]
    assert 20 < document["peak_rss_mb"] < 8000
    assert "auto" not in document["selected"].values()
    assert "device" in document


def test_evaluate_tells_the_candidates(infrec: Infrec, ratings: Path) -> None:
    document = infrec("evaluate", ratings, "--json").document
    assert len(document["candidates"]) > 1
    scored = [c for c in document["candidates"] if c["score"] is not None]
    best = max(scored, key=lambda c: c["score"])
    assert document["selected"]["reg"] == best["settings"]["reg"]
    for candidate in document["candidates"]:
        assert set(candidate) == {"settings", "score", "error"}


def test_set_fixes_and_no_search_does_not_choose(infrec: Infrec, ratings: Path) -> None:
    fixed = infrec("evaluate", ratings, "--set", "reg=3.5", "--set", "depth=2", "--json").document
    assert fixed["selected"]["reg"] == 3.5
    assert fixed["selected"]["depth"] == 2
    shipped = infrec("evaluate", ratings, "--no-search", "--json").document
    assert shipped["candidates"] == []
    assert "auto" not in shipped["selected"].values()


def test_search_seconds_is_a_limit_and_not_a_failure(infrec: Infrec, ratings: Path) -> None:
    document = infrec("evaluate", ratings, "--search", "0.0001", "--json").document
    assert sum(c["score"] is not None for c in document["candidates"]) >= 1


def test_protocols_differ(infrec: Infrec, ratings: Path) -> None:
    documents = [
        infrec("evaluate", ratings, "-m", "poprec", "--protocol", protocol, "--json").document
        for protocol in ("paper-code", "textbook", "graph")
    ]
    assert [d["protocol"] for d in documents] == ["paper-code", "textbook", "graph"]
    assert documents[0]["metrics"] != documents[1]["metrics"]
    assert {"Recall@20", "NDCG@20"} <= set(documents[2]["metrics"])
    assert "Recall@20" in infrec("evaluate", ratings, "-m", "poprec", "--protocol", "graph").out


def test_without_a_validation_part_settings_are_chosen_on_what_is_hidden(
    infrec: Infrec, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    liked = np.argwhere(rng.random((60, 30)) < 0.3)
    part = np.where(rng.random(len(liked)) < 0.2, "test", "train")
    table = pa.table({"user": liked[:, 0], "item": liked[:, 1], "split": part})
    pq.write_table(table, tmp_path / "own.parquet")
    ran = infrec("evaluate", tmp_path / "own.parquet", "--protocol", "graph", "--json")
    assert "on a part hidden from what is fitted on" in ran.err
    assert sum(c["score"] is not None for c in ran.document["candidates"]) > 1
    assert ran.document["users"]["measured"] == len(set(liked[part == "test", 0].tolist()))


def test_several_models_are_one_document_and_one_table(infrec: Infrec, ratings: Path) -> None:
    words = ("evaluate", ratings, "-m", "ease", "-m", "poprec")
    document = infrec(*words, "--json").document
    assert set(document) == {"dataset", "results"}
    assert [result["model"] for result in document["results"]] == ["ease", "poprec"]
    assert all(set(result) == EVALUATE for result in document["results"])
    table = infrec(*words)
    assert "EASE" in table.out
    assert "PopRec" in table.out
    assert "HR@10" in table.out


def test_seed_changes_the_split_and_repeats(infrec: Infrec, ratings: Path) -> None:
    def metrics(seed: int) -> dict[str, float]:
        return infrec("evaluate", ratings, "-m", "ease", "--seed", seed, "--json").document["metrics"]

    assert metrics(1) == metrics(1)
    assert metrics(1) != metrics(2)


def test_positive_and_duplicates_reach_the_reader(infrec: Infrec, tmp_path: Path) -> None:
    lines = [f"{u},{i},{5 if (u + i) % 2 else 1}" for u in range(8) for i in range(12)]
    path = tmp_path / "log.csv"
    path.write_text("user,item,rating\n" + "\n".join([*lines, lines[1]]) + "\n")
    every = infrec("datasets", "stats", path, "--json")
    assert every.document["interactions"] == 96
    assert sum(every.document["read"]["dropped"].values()) == 1
    liked = infrec("datasets", "stats", path, "--positive", "rating >= 4", "--json").document
    assert liked["interactions"] == 48
    assert infrec("datasets", "stats", path, "--duplicates", "sum", "--json").document["weighted"] is True
    assert infrec("datasets", "stats", path, "--strict").code == 1


def test_train_on_a_sample_over_the_same_items(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    """A directory with interactions.parquet and items.parquet, of fewer and other users."""
    users = pa.array(["s1", "s1", "s1", "s2", "s2", "s2"])
    items = pa.array(["film a", "film c", "film e", "film b", "film d", "film f"])
    pq.write_table(
        pa.table({"user": users, "item": items, "weight": pa.array([1.0, 0.5, 1.0, 1.0, 1.0, 0.25])}),
        tmp_path / "interactions.parquet",
    )
    every = pa.array([f"film {chr(97 + n)}" for n in range(24)])
    pq.write_table(pa.table({"item": every}), tmp_path / "items.parquet")
    document = infrec("evaluate", ratings, "--train-on", tmp_path, "--json").document
    assert document["metrics"]["HR@10"] > 0
    assert document["metrics"] != infrec("evaluate", ratings, "--json").document["metrics"]
    fixed = infrec("evaluate", ratings, "--train-on", tmp_path, "--no-search", "--json")
    assert fixed.code == 0


def test_train_on_other_items_is_refused(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("user,item\n1,unheard of\n1,film a\n")
    ran = infrec("evaluate", ratings, "--train-on", other)
    assert ran.code == 1
    assert "items" in ran.err


def test_own_split_wins(infrec: Infrec, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["user,item,split"]
    for user in range(20):
        for at, item in enumerate(rng.permutation(15)[:8]):
            lines.append(f"{user},{item},{'train' if at < 6 else 'val' if at == 6 else 'test'}")
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    assert infrec("datasets", "stats", path, "--json").document["split"] == {
        "train": 120,
        "val": 20,
        "test": 20,
    }
    one, two = (infrec("evaluate", path, "-m", "ease", "--seed", seed, "--json").document for seed in (1, 2))
    assert one["metrics"]["HR@10"] == two["metrics"]["HR@10"]


# ---- fit and recommend ---------------------------------------------------------------------------
def test_fit_document(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    ran = infrec("fit", ratings, "-o", tmp_path / "m", "--model", "ease", "--json")
    assert ran.code == 0, ran.err
    assert set(ran.document) == {
        *(
            "dataset",
            "model",
            "selected",
            "candidates",
            "users",
            "items",
            "interactions",
            "out",
            "bytes",
            "seconds",
        ),
        *("peak_rss_mb", "device", "about"),
    }
    assert ran.document["users"] == 40
    assert ran.document["items"] == 24
    assert ran.document["bytes"] == sum(f.stat().st_size for f in (tmp_path / "m").rglob("*") if f.is_file())


def test_fit_again_replaces_and_train_only_knows_less(infrec: Infrec, ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    everything = infrec("fit", ratings, "-o", out, "-m", "poprec", "--json").document
    train = infrec("fit", ratings, "-o", out, "-m", "poprec", "--train-only", "--json").document
    assert train["interactions"] < everything["interactions"]
    assert infrec("recommend", out, "--user", "007").code == 0


def test_a_model_says_that_it_holds_user_ids_or_keeps_none(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    assert "--without-users keeps no ids" in infrec("fit", ratings, "-o", tmp_path / "named").out
    ran = infrec("fit", ratings, "--without-users", "-o", tmp_path / "model")
    assert "keeps no ids" not in ran.out and "40 users" in ran.out and "--history" in ran.out
    known = load(tmp_path / "model")
    assert all(name.startswith("unnamed ") for name in known.log.users.ids.to_pylist())
    answers = [
        infrec("recommend", tmp_path / name, "--history", "film a", "--json").document["recommendations"]
        for name in ("named", "model")
    ]
    assert [row["item"] for row in answers[0]][:3] == [row["item"] for row in answers[1]][:3]
    for words in (["--user", "007"], ["--all", "-o", tmp_path / "recs.csv"]):
        ran = infrec("recommend", tmp_path / "model", *words)
        assert ran.code == 1 and "keeps no user ids" in ran.err


def test_few_centres_without_users_keep_no_other_history(
    infrec: Infrec, ratings: Path, tmp_path: Path
) -> None:
    fitted = ("fit", ratings, "--centres", 5, "--set", "reg=1", "--json")
    assert infrec(*fitted, "--without-users", "-o", tmp_path / "model").document["users"] == 40
    assert infrec(*fitted, "-o", tmp_path / "named").document["users"] == 40
    assert load(tmp_path / "model").log.n_users == 5 and load(tmp_path / "named").log.n_users == 40


def test_recommend_a_known_user_with_a_string_id(infrec: Infrec, model: Path) -> None:
    ran = infrec("recommend", model, "--user", "007", "-k", "5", "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert set(document) == {"model", "k", "unknown", "recommendations"}
    assert document["unknown"] == []
    rows = document["recommendations"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    assert {row["user"] for row in rows} == {"007"}
    assert all(row["item"].startswith("film ") and row["source"] == "model" for row in rows)
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)


def test_7_is_not_007(infrec: Infrec, model: Path) -> None:
    ran = infrec("recommend", model, "--user", "7", "--json")
    assert ran.code == 0
    assert ran.document["unknown"] == ["7"]
    assert {row["source"] for row in ran.document["recommendations"]} == {"popular"}
    assert "7" in ran.err
    assert (
        infrec("recommend", model, "--user", "7", "--on-unknown", "skip", "--json").document[
            "recommendations"
        ]
        == []
    )
    assert infrec("recommend", model, "--user", "7", "--on-unknown", "error").code == 1


def test_history_of_somebody_new_follows_the_taste(infrec: Infrec, model: Path) -> None:
    """Even and odd letters are two tastes; two even films lead to even films."""
    rows = infrec(
        "recommend", model, "--history", "film a", "--history", "film c", "-k", "4", "--json"
    ).document
    taste = {(ord(row["item"][-1]) - ord("a")) % 2 for row in rows["recommendations"]}
    assert taste == {0}
    assert not {"film a", "film c"} & {row["item"] for row in rows["recommendations"]}


def test_filters(infrec: Infrec, model: Path) -> None:
    def items(*words: str) -> list[str]:
        rows = infrec("recommend", model, "--history", "film a", "--json", *words).document["recommendations"]
        return [row["item"] for row in rows]

    plain = items()
    assert len(plain) == 10
    assert plain[0] not in items("--exclude", plain[0])
    assert set(items("--only", "film b", "--only", "film d")) == {"film b", "film d"}
    assert "film a" in items("--include-seen", "-k", "24")
    assert "film a" not in items("-k", "24")


def test_unknown_items_of_a_history_are_told(infrec: Infrec, model: Path) -> None:
    ran = infrec("recommend", model, "--history", "film a", "--history", "film 99", "--json")
    assert ran.document["unknown"] == ["film 99"]


def test_everybody_equals_one_by_one(
    infrec: Infrec, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infrec.cli import recommend as recommend_file

    monkeypatch.setattr(recommend_file, "BATCH", 7)
    out = tmp_path / "recs.parquet"
    ran = infrec("recommend", model, "--all", "--out", out, "-k", "3", "--json")
    assert ran.code == 0, ran.err
    assert ran.document == {"model": "infinite-ae", "k": 3, "users": 40, "rows": 120, "out": str(out)}
    table = pq.read_table(out).to_pylist()
    assert len(table) == 120
    assert [path.name for path in tmp_path.iterdir()] == ["recs.parquet"]
    for user in ("000", "007", "039"):
        alone = infrec("recommend", model, "--user", user, "-k", "3", "--json").document["recommendations"]
        batched = [row for row in table if row["user"] == user]
        assert [row["item"] for row in alone] == [row["item"] for row in batched]
        np.testing.assert_allclose(
            [row["score"] for row in alone], [row["score"] for row in batched], rtol=1e-4
        )


def test_interrupted_everybody_leaves_the_old_file(
    infrec: Infrec, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infrec.cli import recommend as recommend_file

    out = tmp_path / "recs.parquet"
    out.write_bytes(b"old")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recommend_file, "_batches", stop)
    assert infrec("recommend", model, "--all", "--out", out).code == 130
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["recs.parquet"]


def test_damaged_model_is_refused(infrec: Infrec, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    victim = max((path for path in copy.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    ran = infrec("recommend", copy, "--user", "007", "--json")
    assert ran.code == 1
    assert ran.document["error"]["type"] == "ArtifactError"


def test_titles_are_shown(infrec: Infrec, tmp_path: Path) -> None:
    out = tmp_path / "m"
    assert infrec("fit", "demo", "-m", "ease", "--set", "reg=100", "-o", out).code == 0
    from infrec import load

    user = load(out).log.users.ids[0].as_py()
    rows = infrec("recommend", out, "--user", user, "-k", "2", "--json").document["recommendations"]
    assert all(row["title"] for row in rows)
    assert rows[0]["title"] in infrec("recommend", out, "--user", user, "-k", "2").out


# ---- datasets, doctor, demo ----------------------------------------------------------------------
def test_datasets_list(infrec: Infrec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFREC_DATA", str(tmp_path))
    monkeypatch.setenv("INFREC_CACHE", str(tmp_path / "cache"))
    entries = infrec("datasets", "list", "--json").document["datasets"]
    assert all(set(entry) == {"name", "description", "found"} for entry in entries)
    assert {"demo", "ml-1m", "magazine", "douban", "netflix"} <= {entry["name"] for entry in entries}
    found = {entry["name"]: entry["found"] for entry in entries}
    assert found["demo"]
    assert found["ml-1m"] is None
    assert "ml-1m" in infrec("datasets", "list").out


def test_datasets_stats_contract(infrec: Infrec, ratings: Path) -> None:
    document = infrec("datasets", "stats", ratings, "--json").document
    assert set(document) == {
        *(
            "dataset",
            "users",
            "items",
            "interactions",
            "density",
            "per_user",
            "per_item",
            "weighted",
            "times",
        ),
        *("titles", "split", "read"),
    }
    assert (document["users"], document["items"]) == (40, 24)
    assert set(document["per_user"]) == {"min", "median", "mean", "max"}
    assert "40" in infrec("datasets", "stats", ratings).out


def test_datasets_generate_is_deterministic_and_readable(infrec: Infrec, tmp_path: Path) -> None:
    words = ("--users", "200", "--items", "80", "--interactions", "3000", "--json")
    first = infrec("datasets", "generate", *words, "--seed", "5", "-o", tmp_path / "a.parquet")
    assert first.code == 0, first.err
    assert set(first.document) == {"users", "items", "interactions", "seed", "out", "bytes", "seconds"}
    infrec("datasets", "generate", *words, "--seed", "5", "-o", tmp_path / "b.parquet")
    infrec("datasets", "generate", *words, "--seed", "6", "-o", tmp_path / "c.parquet")
    a, b, c = (pq.read_table(tmp_path / f"{name}.parquet") for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)
    stats = infrec("datasets", "stats", tmp_path / "a.parquet", "--json").document
    assert stats["interactions"] == first.document["interactions"]
    assert stats["interactions"] == 3000
    assert stats["titles"] is False or stats["items"] <= 80


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_datasets_generate_writes_what_the_ending_says(infrec: Infrec, tmp_path: Path, ending: str) -> None:
    words = ("datasets", "generate", "--users", "60", "--items", "40", "--interactions", "900", "-o")
    for name in (f"log{ending}", "log.parquet"):
        assert infrec(*words, tmp_path / name).code == 0
    expected = Interactions.read(tmp_path / "log.parquet", items=tmp_path / "log-items.parquet")
    log = Interactions.read(tmp_path / f"log{ending}", items=tmp_path / f"log-items{ending}")
    assert (tmp_path / f"log{ending}").read_bytes()[:1] in (b'"', b"{")
    assert (log.matrix != expected.matrix).nnz == 0 and log.items == expected.items
    assert log.titles.equals(expected.titles)
    refused = infrec(*words, tmp_path / "log.xlsx")
    assert refused.code == 2 and "expected one of .csv, .jsonl, .parquet" in refused.err


def test_download_of_what_cannot_be_downloaded(infrec: Infrec) -> None:
    ran = infrec("datasets", "download", "netflix", "--json")
    assert ran.code == 1
    assert "netflix" in ran.document["error"]["message"]


def test_doctor(infrec: Infrec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = infrec("doctor", "--json").document
    assert set(document) == {"versions", "devices", "cores", "memory", "data", "compile_cache", "problems"}
    assert document["versions"]["infrec"] == __version__
    assert document["devices"]
    assert document["memory"]["available"] <= document["memory"]["total"]
    monkeypatch.setenv("INFREC_DATA", str(tmp_path / "not there"))
    ran = infrec("doctor")
    assert ran.code == 0
    assert "not there" in ran.out


def test_the_demo_compares_explains_and_reports(infrec: Infrec, tmp_path: Path) -> None:
    """One run for its words, its files and its claims: `--json` prints the record that it keeps."""
    ran = infrec("demo", "--out", tmp_path / "demo")
    assert ran.code == 0, ran.err
    for words in ("∞-AE", "EASE", "PopRec", "because you liked", "users like you", "infrec fit demo"):
        assert words in ran.out
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<svg") == 4
    assert str(tmp_path / "demo" / "report.html") in ran.out.replace("\n", "")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"report.html", "record.json", "summary"}
    assert (tmp_path / "demo" / "summary" / "card.html").is_file()

    document = json.loads((tmp_path / "demo" / "record.json").read_text())
    quality = {model["name"]: model["metrics"]["HR@10"] for model in document["models"]}
    assert set(quality) == {"infinite-ae", "ease", "poprec"}
    assert quality["infinite-ae"] > 1.5 * quality["poprec"], "tastes are there to be found"
    fitted_on = {(x["model"], x["data"]): x["metrics"]["HR@10"] for x in document["card"]["fidelity"]}
    for name in ("infinite-ae", "ease"):
        assert fitted_on[name, "full"] == quality[name]
        assert fitted_on[name, "summary"] > fitted_on[name, "random"] + 8, "a summary beats random users"
        assert fitted_on[name, "summary"] > 0.85 * quality[name]
    for model in document["models"]:
        assert sum(model["popularity"]) == pytest.approx(1)
        assert sum(stratum["users"] for stratum in model["strata"]) == document["users"]
    recommended = document["example"]["recommended"]
    assert len(recommended) == 5
    assert not {rec["label"] for rec in recommended} & set(document["example"]["history"])
    for rec in recommended:
        amounts = [reason["contribution"] for reason in rec["items"]]
        assert sum(amounts) + rec["rest"] + rec["baseline"] == pytest.approx(rec["score"])
        assert amounts == sorted(amounts, reverse=True)
        assert {reason["label"] for reason in rec["items"]} <= set(document["example"]["history"])
