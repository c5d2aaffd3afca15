"""A log is known again by its fingerprint, whatever the order of its rows and ids; another one is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from infrec.data import Interactions, Vocabulary
from infrec.splits import holdout, set_aside
from infrec.splits.provenance import fingerprint, fingerprints, is_source, source_of


def log(seed: int = 0, users: int = 12, items: int = 9) -> Interactions:
    rng = np.random.default_rng(seed)
    dense = (rng.random((users, items)) < 0.6).astype(np.float32)
    return Interactions.from_csr(dense, users=[f"u{n}" for n in range(users)])


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_order_and_unused_items_do_not_matter(seed: int) -> None:
    one, rng = log(), np.random.default_rng(seed)
    rows, columns = rng.permutation(one.n_users), rng.permutation(one.n_items)
    wider = sp.hstack([one.matrix[rows][:, columns], sp.csr_array((one.n_users, 2))])
    ids = [str(one.items.ids[int(at)]) for at in columns]  # numbers became text
    other = Interactions.from_csr(wider, users=one.users.take(rows), items=[*ids, "new", "newer"])
    assert fingerprint(other) == fingerprint(one)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_every_single_change_matters(seed: int) -> None:
    one, rng = log(), np.random.default_rng(seed)
    at = int(rng.integers(one.n_interactions))
    dropped, heavier = one.matrix.copy(), one.matrix.copy()
    dropped.data[at], heavier.data[at] = 0, 2
    renamed = replace(one, users=Vocabulary.of(["else", *one.users.ids.to_pylist()[1:]]))
    others = [one.with_matrix(dropped), one.with_matrix(heavier), renamed]
    assert len({fingerprint(each) for each in (one, *others)}) == 4


def test_users_who_swap_their_histories_make_another_log() -> None:
    one = log()
    swapped = one.with_matrix(one.matrix[[1, 0, *range(2, one.n_users)]])
    assert fingerprint(swapped) != fingerprint(one)


def test_a_log_is_found_again_by_the_rules_of_the_manifest() -> None:
    one = log()
    split = holdout(one, seed=3)
    kept, _ = set_aside(split, 0.5, 3)
    about = {"seed": 3, "set_aside": {"share": 0.5, "seed": 3}, "source": source_of(kept.train)}
    assert is_source(one, about)
    assert is_source(one, {**about, "seed": 4}) is False
    assert is_source(log(1), about) is False
    assert is_source(log(1, users=2, items=2), about) is False  # too few to be split
    assert is_source(one, {"seed": 3, "source": source_of(one)}), "made from the whole log"
    assert is_source(one, {"seed": 3, "source": {"users": 4}}) is None
    continued = {"fingerprint": "another", "earlier": [fingerprint(split.train)]}
    assert is_source(one, {"seed": 3, "source": continued})
    assert fingerprints({"source": "an older sample's file"}) == ()
