"""Answers without HTTP: the same as the Python API's, whoever shares the batch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.models import EASE, InfiniteAE, InfiniteAEPlus, PopRec
from infrec.models.infinite_ae_plus import LADDERS
from infrec.serve.answers import explain, recommend
from infrec.serve.loading import Source, load, sources
from infrec.serve.schemas import ExplainRequest, Problem, RecommendRequest, read
from infrec.serve.served_model import Catalogue, Served
from infrec.serve.server import attach, publish


@pytest.fixture(scope="module")
def served(folders: Path) -> Served:
    return load(Source("full", folders / "full"))


def asked(served: Served, **query: Any) -> dict[str, Any]:
    (answer,) = recommend(served, [RecommendRequest(**query)])
    assert isinstance(answer, bytes), answer
    return json.loads(answer)


def ids(answer: dict[str, Any]) -> list[Any]:
    return [item["item"] for item in answer["items"]]


def test_it_recommends_what_the_python_api_recommends(served: Served, model: InfiniteAE) -> None:
    table = model.recommend(histories=[[100, 104, 108]], k=7).table.to_pydict()
    answer = asked(served, history=[100, "104", 108, "nobody"], k=7)
    assert ids(answer) == table["item"]
    assert [item["title"] for item in answer["items"]] == table["title"]
    np.testing.assert_allclose([item["score"] for item in answer["items"]], table["score"], rtol=1e-5)
    assert (answer["source"], answer["unknown"]) == ("model", ["nobody"])
    known = model.recommend([17], k=5).table.to_pydict()
    assert ids(asked(served, user="17", k=5)) == known["item"]


@pytest.mark.parametrize("kind", ["infinite-ae", "float64", "infinite-ae-plus"])
def test_a_batch_gives_everybody_what_they_get_alone_to_the_last_bit(
    served: Served, films: Interactions, tmp_path: Path, kind: str
) -> None:
    if kind != "infinite-ae":
        other = (
            InfiniteAEPlus(**LADDERS.start) if kind == "infinite-ae-plus" else InfiniteAE(reg=5, dtype=kind)
        )
        other.fit(films).save(tmp_path / "other")
        served = load(Source("other", tmp_path / "other"))
    rng = np.random.default_rng(1)
    queries = [
        RecommendRequest(history=rng.choice(np.arange(100, 140), n, replace=False).tolist())
        for n in range(24)
    ]
    queries += [
        RecommendRequest(user=3, k=40),
        RecommendRequest(history=[101], genres=["drama"]),
        RecommendRequest(history=[101], only=[102, 103]),
    ]
    together = recommend(served, queries)
    assert together == [recommend(served, [query])[0] for query in queries]
    assert together[::-1] == recommend(served, queries[::-1])


def test_nothing_known_gives_the_popular_items(served: Served, films: Interactions) -> None:
    popular = (np.argsort(-films.item_counts, kind="stable")[:5] + 100).tolist()
    for query in ({"history": []}, {"history": ["x"]}, {"user": "stranger"}):
        answer = asked(served, k=5, **query)
        assert answer["source"] == "popular" and ids(answer) == popular
    assert asked(served, user="stranger")["unknown"] == ["stranger"]


def test_filters(served: Served) -> None:
    every = ids(asked(served, history=[100], k=1000))
    assert len(every) == 39 and 100 not in every
    assert len(ids(asked(served, history=[100], k=1000, exclude_seen=False))) == 40
    assert set(ids(asked(served, history=[100], only=[101, 102, 100], k=9))) == {101, 102}
    assert every[0] not in ids(asked(served, history=[100], exclude=[every[0]], k=1000))
    crime = asked(served, history=[100], genres=["CRIME"], k=1000)["items"]
    assert len(crime) == 10 and all("Crime" in item["genres"] for item in crime)
    for query, word in (({"only": ["x"]}, "only"), ({"genres": ["Jazz"]}, "Jazz")):
        (problem,) = recommend(served, [RecommendRequest(history=[100], **query)])
        assert isinstance(problem, Problem) and problem.status == 422 and word in problem.message


_items = st.integers(100, 139)


@settings(max_examples=40, deadline=None)
@given(
    history=st.lists(_items, unique=True, max_size=6),
    only=st.none() | st.lists(_items, min_size=1, max_size=20),
    exclude=st.none() | st.lists(_items, max_size=20),
    k=st.integers(1, 50),
    exclude_seen=st.booleans(),
)
def test_one_policy_makes_the_lists_of_the_service_and_of_the_python_api(
    served: Served, model: InfiniteAE, history: list[int], exclude_seen: bool, **filters: Any
) -> None:
    answer = asked(served, history=history, exclude_seen=exclude_seen, **filters)
    table = model.recommend(histories=[history], exclude_seen=exclude_seen, **filters).table.to_pydict()
    assert ids(answer) == table["item"]
    assert {answer["source"]} >= set(table["source"])
    allowed = set(filters["only"] or range(100, 140)) - set(filters["exclude"] or ())
    allowed -= set(history) if exclude_seen else set()
    assert set(ids(answer)) <= allowed and len(ids(answer)) == min(filters["k"], len(allowed))


def test_reasons_add_up(served: Served, model: InfiniteAE) -> None:
    own = model.explain([100, 104], 108)
    told = json.loads(explain(served, ExplainRequest(history=[100, 104], item="108")))
    assert told["score"] == pytest.approx(own.score, rel=1e-5)
    added = sum(reason["contribution"] for reason in told["items"])
    assert added == pytest.approx(told["score"] - told["baseline"], abs=1e-5)
    # Real users stay unnamed: their tastes are nobody's business.
    assert all(person["user"] is None and person["likes"] == [] for person in told["users"])
    because = asked(served, history=[100, 104], k=3, explain=2)["items"][0]["because"]
    assert [len(because[part]) for part in ("items", "users")] == [2, 2]


def test_synthetic_users_have_names_and_tastes(folders: Path) -> None:
    small = load(Source("small", folders / "small"))
    told = json.loads(explain(small, ExplainRequest(history=[100], item=104)))
    assert {person["user"] for person in told["users"]} == set(range(12))
    assert all(person["likes"] for person in told["users"])
    assert sum(person["contribution"] for person in told["users"]) == pytest.approx(told["score"], abs=1e-5)


def test_a_summary_can_be_explored_and_real_users_cannot(served: Served, folders: Path) -> None:
    small = load(Source("small", folders / "small"))
    seen = small.explore(served)
    assert seen["original_users"] == 90 and len(seen["users"]) == 12
    for row, user in enumerate(seen["users"]):
        held = sorted(seen["items"][place]["item"] for place in user["items"])
        assert held == (np.flatnonzero(small.log.matrix[[row]].toarray()) + 100).tolist()
    originals = {item["item"]: item["original"] for item in seen["items"]}
    assert originals == dict(zip(range(100, 140), served.catalogue.counts.tolist(), strict=True))
    assert 0 in [item["popularity"] for item in seen["items"]], "what vanished is shown too"
    with pytest.raises(Problem, match="not served from a summary"):
        served.explore(None)


def test_search_finds_titles_words_and_ids(served: Served) -> None:
    catalogue: Catalogue = served.catalogue
    titles = [catalogue.titles[at] for at in catalogue.search("film", 40)]
    assert titles[-1] == "The Film, Again" and len(titles) == 38
    assert [catalogue.titles[at] for at in catalogue.search("  AMELIE", 5)] == ['Amélie & "Zoë" \\ ']
    assert catalogue.search("137", 5)[0] == 37
    assert catalogue.search("no such thing", 5) == []
    popular = catalogue.search("", 3)
    assert catalogue.counts[popular].tolist() == sorted(catalogue.counts, reverse=True)[:3]


def test_what_workers_map_answers_the_same(served: Served, tmp_path: Path) -> None:
    shared = publish(served, tmp_path / "arrays")
    assert len(shared.frame) < shared.file.stat().st_size, "the arrays are not in the file"
    again = attach(shared)
    query = RecommendRequest(history=[100, 103], k=9)
    assert recommend(again, [query]) == recommend(served, [query])
    assert isinstance(again.model, InfiniteAE) and not again.model.alpha.flags.writeable


def test_other_models_are_served_as_far_as_they_go(films: Interactions, tmp_path: Path) -> None:
    EASE(reg=10).fit(films).save(tmp_path / "ease")
    served = load(Source("ease", tmp_path / "ease"))
    assert len(asked(served, history=[100], k=3, explain=1)["items"]) == 3
    with pytest.raises(Problem, match="cannot explain"):
        explain(served, ExplainRequest(history=[100], item=101))


def test_names_of_models(tmp_path: Path) -> None:
    found = sources([str(tmp_path / "a"), f"b={tmp_path / 'a'}"])
    assert [source.name for source in found] == ["a", "b"]
    with pytest.raises(ConfigError, match="two models are named 'a'"):
        sources([str(tmp_path / "a"), str(tmp_path / "x" / "a")])


def test_a_model_that_needs_jax_is_refused_in_one_sentence(folders: Path) -> None:
    """In a process of its own: forbidding JAX is for good."""
    code = f"""
import sys
from pathlib import Path
from infrec.errors import InfrecError
from infrec.models import InfiniteAE
from infrec.serve.loading import Source, forbid_jax, load
forbid_jax()
load(Source("small", Path({str(folders / "small")!r})))
assert "jax" not in sys.modules
def needs_jax(self, histories):
    import jax
InfiniteAE._score = needs_jax
try:
    load(Source("full", Path({str(folders / "full")!r})))
except InfrecError as refused:
    print(refused)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "needs JAX" in told and told.count("\n") == 1


@pytest.mark.parametrize(
    "wishes",
    [
        {"diversity": 0.4},
        {"popularity": -0.5},
        {"max_per": {"genre": 2}},
        {"diversity": 1, "max_per": {"genres": 3}},
    ],
)
def test_lists_that_are_not_all_alike_are_those_of_the_python_api(
    served: Served, wishes: dict[str, Any]
) -> None:
    model = served.model
    table = model.recommend(histories=[[100, 104]], k=12, **wishes).table.to_pydict()
    query = RecommendRequest(history=[100, 104], k=12, **wishes)
    others = [RecommendRequest(history=[101, 110], k=12, **wishes), RecommendRequest(history=[100], k=12)]
    alone, among = recommend(served, [query])[0], recommend(served, [*others, query])[2]
    assert isinstance(alone, bytes) and alone == among
    assert ids(json.loads(alone)) == table["item"]
    assert table["item"] != model.recommend(histories=[[100, 104]], k=12)["item"]


def test_wishes_for_lists_that_cannot_be_met(served: Served, films: Interactions, tmp_path: Path) -> None:
    (problem,) = recommend(served, [RecommendRequest(history=[100], max_per={"studio": 2})])
    assert isinstance(problem, Problem) and problem.status == 422 and "'studio'" in problem.message
    PopRec().fit(films).save(tmp_path / "popular")
    popular = load(Source("popular", tmp_path / "popular"))
    (problem,) = recommend(popular, [RecommendRequest(history=[100], diversity=0.5)])
    assert isinstance(problem, Problem) and problem.status == 422 and "for everybody" in problem.message
    wrong = ('"diversity": 1.5', '"diversity": NaN', '"popularity": "much"', '"max_per": {"genre": 0}')
    for field in wrong:
        with pytest.raises(Problem):
            read(RecommendRequest, f'{{"history": [], {field}}}'.encode())
