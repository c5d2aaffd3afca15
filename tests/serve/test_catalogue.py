"""Items as data brings them: titles with the article behind, titles that are missing, ids beyond 2⁵³."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from infrec import machine
from infrec.data import Interactions
from infrec.data.datasets import load
from infrec.models import InfiniteAE
from infrec.models.infinite_ae_plus import InfiniteAEPlus
from infrec.serve.answers import explain, recommend
from infrec.serve.batching import Service
from infrec.serve.metrics import Counters
from infrec.serve.schemas import ExplainRequest, RecommendRequest
from infrec.serve.served_model import Catalogue, Served, one_slip
from infrec.serve.settings import Settings


def log_of(titles: list[str | None], items: list[Any] | None = None) -> Interactions:
    """Everybody has everything but one."""
    n = len(titles)
    return Interactions.from_csr(1 - np.eye(n), items=items or list(range(n)), titles=titles)  # type: ignore[arg-type]


def test_a_title_is_found_as_it_is_written_and_as_it_is_said() -> None:
    titles: list[str | None] = [
        "Matrix, The (1999)",
        "Bug's Life, A (1998)",
        "Ideal Husband, An",
        "Thelma (1991)",
    ]
    catalogue = Catalogue(log_of(titles))
    for text, at in (
        ("the matrix", 0),
        ("The Matrix (1999)", 0),
        ("matrix, the", 0),
        ("a bug's life", 1),
        ("an ideal husband", 2),
        ("husband, an", 2),
    ):
        assert catalogue.search(text, 5) == [at], text
    assert catalogue.search("the", 5) == [0, 3]  # both begin with it
    assert catalogue.titles[0] == "Matrix, The (1999)"


def test_words_are_found_in_any_order_with_one_letter_wrong_and_in_what_else_is_known() -> None:
    log = log_of(["Matrix, The (1999)", "Bug's Life, A (1998)", "The Life of Brian", "Life"])
    facts = pa.table({"title": log.titles, "author": ["Wachowski", None, "Monty Python", "Richards"]})
    catalogue = Catalogue(replace(log, item_info=facts))
    for text, items in (
        ("1999 matrix", [0]),
        ("life bug", [1]),
        ("brian life", [2]),
        ("python life", [2]),
        ("martix", [0]),
        ("mattrix", [0]),
        ("natrix", [0]),
        ("matri 1999", [0]),
        ("wachovski", [0]),
        ("lief of brain", [2]),
        ("life 1999", []),
        ("lfie", [3, 1, 2]),
        ("xlif", []),
        ("...", []),
    ):
        assert sorted(catalogue.search(text, 5)) == sorted(items), text
    assert catalogue.search("life", 1) == [3], "the phrase itself comes first"


LETTERS = st.text("abc", max_size=6)


@given(LETTERS, LETTERS)
def test_one_slip_is_one_letter_more_less_another_or_two_exchanged(a: str, b: str) -> None:
    slips = {a} | {a[:at] + a[at + 1 :] for at in range(len(a))}
    slips |= {a[:at] + letter + a[at:] for at in range(len(a) + 1) for letter in "abc"}
    slips |= {a[:at] + letter + a[at + 1 :] for at in range(len(a)) for letter in "abc"}
    slips |= {a[:at] + a[at + 1] + a[at] + a[at + 2 :] for at in range(len(a) - 1)}
    assert one_slip(a, b) == (b in slips)


def test_an_empty_title_is_no_title() -> None:
    catalogue = Catalogue(log_of(["", "  ", None, "Film"], items=["a", "b", "c", "d"]))
    assert catalogue.titles == ["a", "b", "c", "Film"]


def test_an_id_that_browsers_would_round_is_sent_as_text() -> None:
    base = 2**53
    log = log_of(["A", "B", "C"], items=[base - 1, base + 1, base + 3])
    served = Served("m", "0" * 16, InfiniteAE(reg=1).fit(log), "log")
    (answer,) = recommend(served, [RecommendRequest(history=[str(base - 1)], k=2)])
    assert isinstance(answer, bytes)
    assert {item["item"] for item in json.loads(answer)["items"]} == {str(base + 1), str(base + 3)}
    told = json.loads(explain(served, ExplainRequest(history=[base - 1, str(base + 3)], item=base + 1)))
    assert told["item"] == str(base + 1) and told["unknown"] == []
    assert {reason["item"] for reason in told["items"]} == {base - 1, str(base + 3)}
    synthetic = Served("s", "0" * 16, served.model, "summary")
    assert [item["item"] for item in synthetic.explore(None)["items"]] == [
        base - 1,
        str(base + 1),
        str(base + 3),
    ]


def test_reasons_of_the_plus_model_add_up_to_the_score_it_recommends_by(films: Interactions) -> None:
    plus = InfiniteAEPlus(
        reg=5,
        user_power=0.5,
        item_power=0.2,
        target_power=0.5,
        item_reg=3,
        low_pass_weight=0.5,
        item_weight=1,
        popularity_power=0.1,
    ).fit(films)
    served = Served("plus", "0" * 16, plus, "log")
    (answer,) = recommend(served, [RecommendRequest(history=[100, 104], k=3, explain=2)])
    assert isinstance(answer, bytes)
    for item in json.loads(answer)["items"]:
        told = json.loads(explain(served, ExplainRequest(history=[100, 104], item=item["item"])))
        np.testing.assert_allclose(told["score"], item["score"], rtol=1e-4)
        np.testing.assert_allclose(item["because"]["score"], item["score"], rtol=1e-4)
        added = sum(reason["contribution"] for reason in told["items"])
        np.testing.assert_allclose(told["baseline"] + added, item["score"], rtol=1e-4)


def test_a_product_of_any_size_gives_the_same_bits_alone_and_together() -> None:
    """1,000 users × 500 items: two rows are a small product to some BLAS libraries, three are none."""
    served = Served("demo", "0" * 16, InfiniteAE(reg=5).fit(load("demo")), "log")
    rng = np.random.default_rng(5)
    queries = [
        RecommendRequest(history=rng.choice(served.catalogue.ids, n).tolist()) for n in (1, 4, 9, 16, 0, 2)
    ]
    queries.append(RecommendRequest(user=3))
    assert recommend(served, queries) == [recommend(served, [query])[0] for query in queries]


def test_every_process_is_in_the_numbers_whichever_is_asked(films: Interactions, tmp_path: Any) -> None:
    Counters.create(tmp_path / "counters", 2)
    asked, other = (Counters(tmp_path / "counters", row, 2) for row in (0, 1))
    service = Service(Settings(), ["m"], other)
    service.put(Served("m", "0" * 16, InfiniteAE(reg=1).fit(films), "log"))
    other.set("waiting", 7)  # said under load
    service._score("m", [RecommendRequest(history=[100])])
    service.close()
    lines = asked.text([]).splitlines()
    assert "infrec_waiting 0" in lines
    resident = next(float(line.split()[1]) for line in lines if line.startswith("infrec_resident_bytes"))
    assert resident > 1.5 * machine.resident_bytes()  # this process, twice
