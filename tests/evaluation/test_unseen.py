"""A model that knows what is measured is found by its log, and refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from infrec.data import Interactions, Summary, Vocabulary
from infrec.errors import DataError
from infrec.evaluation import evaluate
from infrec.evaluation.evaluate import held_out_in
from infrec.models import PopRec
from infrec.splits import Split, holdout


@pytest.fixture(scope="module")
def log() -> Interactions:
    rng = np.random.default_rng(2)
    return Interactions.from_csr(rng.random((30, 20)) < 0.4, users=[f"u{n}" for n in range(30)])


def test_a_model_of_everything_is_refused(log: Interactions) -> None:
    split = holdout(log, seed=1)
    tests = split.test.n_interactions
    with pytest.raises(DataError, match=f"fitted on {tests} of {tests} interactions that are held out"):
        evaluate(PopRec().fit(log), split)
    with pytest.raises(DataError, match="fitted on"):  # another split holds most of this one's test part
        evaluate(PopRec().fit(holdout(log, seed=2).train), split)


def test_order_and_kind_of_users_do_not_hide_it(log: Interactions) -> None:
    split = holdout(log, seed=1)
    turned = log.select_users(np.arange(log.n_users)[::-1])
    tests = split.test.n_interactions
    assert held_out_in(turned, split) == (tests, tests)
    some = log.select_users(np.arange(5))
    own = split.test.select_users(np.arange(5)).n_interactions
    assert held_out_in(some, split) == (own, own)


def test_a_smaller_part_brings_a_warning(log: Interactions) -> None:
    split = holdout(log, seed=1)
    few = split.train.matrix.maximum(split.test.matrix * (np.arange(30) < 6)[:, None])
    with pytest.warns(UserWarning, match="remembers, not what it foresees"):
        evaluate(PopRec().fit(log.with_matrix(few)), split, intervals=False)


def test_who_does_not_know_it_is_measured_in_silence(log: Interactions) -> None:
    split = holdout(log, seed=1)
    strangers = replace(log, users=Vocabulary.of([f"v{n}" for n in range(30)]))
    both = split.train.matrix.maximum(split.val.matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in (split.train, strangers, log.with_matrix(both), Summary.of(log)):
            evaluate(PopRec().fit(known), split, intervals=False)


def test_what_is_repeated_may_be_known(log: Interactions) -> None:
    """A pair that the data has in train and again in test is no secret."""
    split = holdout(log, seed=1)
    again = Split(split.train, split.val, split.train, name="own")
    assert held_out_in(log, again) == (0, 0)
