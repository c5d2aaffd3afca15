"""The trade of lists that are not all alike: from the lists that `evaluate` measures to those asked for."""

from __future__ import annotations

import numpy as np
import pytest

from infrec.data import Interactions
from infrec.errors import ConfigError
from infrec.evaluation import evaluate
from infrec.evaluation.comparison import Trade, trade
from infrec.metrics import ranking_metrics
from infrec.models import InfiniteAE
from infrec.models.balance import Balance
from infrec.report import html
from infrec.report.comparison import trade_document, trade_headline, trade_table
from infrec.splits import Split, holdout


@pytest.fixture(scope="module")
def split(small_log: Interactions) -> Split:
    return holdout(small_log, seed=42)


@pytest.fixture(scope="module")
def model(split: Split) -> InfiniteAE:
    return InfiniteAE(reg=1).fit(split.train)


@pytest.fixture(scope="module")
def measured(model: InfiniteAE, split: Split) -> Trade:
    return trade(model, split, Balance(0.6, -0.3))


def test_it_begins_with_lists_by_scores_alone(measured: Trade, model: InfiniteAE, split: Split) -> None:
    first, plain = measured.steps[0], evaluate(model, split)
    assert (first.diversity, first.popularity) == (0, 0)
    for name in ("HR@10", "NDCG@10", "coverage@10", "novelty@10"):
        assert first.metrics[name] == pytest.approx(plain.metrics[name], rel=1e-6)
    assert first.intervals["NDCG@10"] == pytest.approx(plain.intervals["NDCG@10"], rel=1e-6)
    assert measured.users == 120 and measured.k == 10


def test_it_ends_with_the_lists_that_are_asked_for(measured: Trade, model: InfiniteAE, split: Split) -> None:
    last = measured.steps[-1]
    assert (last.diversity, last.popularity) == (0.6, -0.3)
    context = split.test_context
    lists = model.recommend(histories=context, k=10, diversity=0.6, popularity=-0.3)
    top = model.log.items.positions(lists["item"]).reshape(120, 10)
    values = ranking_metrics(top, split.test.matrix, np.ones(60), k=(10,), protocol="paper-code")
    assert last.metrics["NDCG@10"] == pytest.approx(100 * values["NDCG@10"].mean(), rel=1e-6)
    assert last.metrics["coverage@10"] == pytest.approx(100 * len(np.unique(top)) / 60)


def test_a_wish_brings_distance_and_novelty(measured: Trade) -> None:
    for name in ("distance@10", "novelty@10"):
        values = [step.metrics[name] for step in measured.steps]
        assert values == sorted(values) and values[-1] > 1.02 * values[0]


def test_a_sample_of_users(model: InfiniteAE, split: Split) -> None:
    some = trade(model, split, Balance(0.3), sample_users=50)
    assert some.users == 50
    assert some.steps[0].metrics["NDCG@10"] == pytest.approx(
        evaluate(model, split, sample_users=50).metrics["NDCG@10"], rel=1e-6
    )
    assert trade(model, split, Balance(0.3), protocol="graph").k == 20


def test_without_a_wish_there_is_nothing_to_trade(model: InfiniteAE, split: Split) -> None:
    with pytest.raises(ConfigError, match="diversity and popularity are 0"):
        trade(model, split, Balance())


def test_its_page_says_what_it_costs(measured: Trade) -> None:
    sentence = trade_headline(measured)
    assert sentence.startswith("∞-AE with diversity 0.6, popularity −0.3: NDCG@10 −")
    before, after = (measured.steps[at].metrics["coverage@10"] for at in (0, -1))
    assert f"coverage@10 {100 * (after / before - 1):+.1f} %".replace("-", "−") in sentence.replace("-AE", "")
    rows = trade_table(measured).rows
    assert rows[0][0] == "by scores alone" and len(rows) == 4
    page = html.render(trade_document([measured], "films", "120 users.", {"device": "cpu"}))
    assert sentence.split(":")[0] in page and "<svg" in page and "mean 1 − cosine" in page
