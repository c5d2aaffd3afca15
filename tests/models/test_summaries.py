"""A summary stays one, and stays whole, on its way to a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infrec.data import Interactions, Summary, Vocabulary
from infrec.models import MF, InfiniteAE


def test_in_another_order_of_items_it_is_still_a_summary(small_log: Interactions) -> None:
    """Its λ grid stays, and its users are nobody: their names say nothing to a model with learnt users."""
    summary = Summary.of(small_log, about={"reg_grid": [0.1, 1.0]})
    aligned = summary.align_items(Vocabulary.of(small_log.items.ids.to_pylist()[::-1]))
    assert isinstance(aligned, Summary) and aligned.synthetic_users and aligned.reg_grid == (0.1, 1.0)
    np.testing.assert_array_equal(aligned.matrix.toarray(), small_log.matrix.toarray()[:, ::-1])
    model = MF(epochs=2).fit(aligned)
    rows = aligned.matrix[[5, 6]]
    np.testing.assert_array_equal(model.score(rows, users=["u030", "u031"]), model.score(rows))


@pytest.mark.parametrize("names", [None, [f"s{n}" for n in range(40)][::-1]], ids=["numbers", "words"])
def test_users_without_interactions_are_kept_on_disk(
    small_log: Interactions, tmp_path: Path, names: list[str] | None
) -> None:
    """They are part of the mean diagonal that λ is relative to."""
    rows = small_log.matrix[:40].toarray()
    rows[[3, 7, 39]] = 0
    summary = Summary.of(Interactions.from_csr(rows, users=names))
    summary.save(tmp_path / "summary")
    loaded = Summary.load(tmp_path / "summary")
    assert loaded.users == summary.users and (loaded.matrix != summary.matrix).nnz == 0
    one, other = (InfiniteAE(reg=1).fit(log).score(small_log.matrix) for log in (summary, loaded))
    np.testing.assert_array_equal(one, other)
    everybody = Summary.of(small_log)
    everybody.save(tmp_path / "all")
    assert not (tmp_path / "all" / "users.parquet").exists()
