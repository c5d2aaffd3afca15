"""Numbers that the summary's picture is drawn from, on data whose right answer is obvious."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.serve.page.browser import Browser, Page
from tests.serve.page.conftest import Server


@pytest.fixture(scope="module")
def page(chromium: Browser, server: Server) -> Iterator[Page]:
    """One page for all: it only lends its modules."""
    opened = chromium.page()
    opened.go(server.url)
    yield opened
    opened.close()


def answer(rows: np.ndarray, original: np.ndarray | None = None, users: int | None = None) -> dict[str, Any]:
    """The answer of /v1/summary about these users × items."""
    items = [
        {"item": at, "title": f"T{at}", "genres": ["odd" if at % 2 else "even"], "popularity": int(count)}
        | {"original": None if original is None else int(original[at])}
        for at, count in enumerate(rows.sum(axis=0))
    ]
    people = [{"user": u, "items": np.flatnonzero(row).tolist()} for u, row in enumerate(rows)]
    return {"users": people, "items": items, "original_users": users}


def ask(page: Page, about: dict[str, Any], expression: str) -> Any:
    return page.js(
        f"import('/static/summary-data.js').then(({{Summary}}) => "
        f"{{ const s = new Summary({json.dumps(about)}); return {expression}; }})"
    )


def checkerboard(users: int = 20, items: int = 30) -> np.ndarray:
    u, i = np.meshgrid(np.arange(users), np.arange(items), indexing="ij")
    return ((u + i) % 2 == 0) & (u % items != i)


def test_similar_users_stand_together(page: Page) -> None:
    order = ask(page, answer(checkerboard()), "s.sorted('similarity', [])")
    assert sorted(order) == list(range(20))
    assert len({u % 2 for u in order[:10]}) == 1 and len({u % 2 for u in order[10:]}) == 1
    assert {u % 2 for u in ask(page, answer(checkerboard()), "s.neighbours(3).slice(0, 9)")} == {1}


def test_similarity_is_the_cosine_around_the_average_user(page: Page) -> None:
    rows = np.random.default_rng(5).random((12, 40)) < 0.3
    centred = rows - rows.mean(axis=0)
    length = np.linalg.norm(centred, axis=1)
    expected = centred @ centred.T / np.outer(length, length)
    found = np.reshape(ask(page, answer(rows), "[...s.alike]"), (12, 12))
    assert found == pytest.approx(expected, abs=1e-5)


def test_sizes_closeness_and_popularity(page: Page) -> None:
    rows = np.tri(6, 8, 2, dtype=bool)  # user u has the first u + 3 items
    about = answer(rows, original=np.arange(80, 0, -10), users=100)
    assert ask(page, about, "s.sorted('size', [])") == [5, 4, 3, 2, 1, 0]
    assert ask(page, about, "s.sorted('popularity', [])") == [0, 1, 2, 3, 4, 5]
    assert ask(page, about, "s.users[0].popularity") == pytest.approx((0.8 + 0.7 + 0.6) / 3)
    assert ask(page, about, "s.sorted('picks', [7])")[0] == 5


def test_what_sets_a_user_apart_is_not_what_everybody_has(page: Page) -> None:
    rows = np.c_[np.ones((20, 2), bool), checkerboard()]
    apart = ask(page, answer(rows), "s.apart(4).map((at) => s.items[at].item)")
    assert set(apart[-2:]) == {0, 1}
    leanings = ask(page, answer(rows), "s.leanings(4).map(({genre}) => genre)")
    assert leanings == ["even"]


def test_agreement_is_spearmans(page: Page) -> None:
    rng = np.random.default_rng(3)
    rows = rng.random((9, 30)) < rng.random(30)
    rows[0] = True
    original = rng.integers(0, 50, 30)
    expected = spearmanr(rows.sum(axis=0), original).statistic
    assert ask(page, answer(rows, original, users=50), "s.agreement") == pytest.approx(expected, abs=1e-9)
