"""A summary stays one, and stays whole, on its way to a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import infrec
from infrec.data import Interactions, Summary, Vocabulary
from infrec.data.partition_writer import prepare
from infrec.data.sources import TableSource
from infrec.errors import ArtifactError
from infrec.models import EASE, MF, InfiniteAE, class_of


def test_whatever_was_written_is_loaded_as_what_it_is(small_log: Interactions, tmp_path: Path) -> None:
    EASE(reg=10).fit(small_log).save(tmp_path / "model")
    Summary.of(small_log).save(tmp_path / "summary")
    Summary.of(small_log, kind="sample").save(tmp_path / "sample")
    prepare(TableSource(small_log.to_table()), tmp_path / "dataset")
    loaded = {place.name: infrec.load(place) for place in tmp_path.iterdir()}
    assert {name: type(one).__name__ for name, one in loaded.items()} == {
        "model": "EASE", "summary": "Summary", "sample": "Summary", "dataset": "PartitionedLog"
    }  # fmt: skip
    assert (loaded["sample"].kind, loaded["summary"].kind) == ("sample", "summary")
    with pytest.raises(ArtifactError, match="there is no directory"):
        infrec.load(tmp_path / "nothing")


def test_a_model_has_its_name_in_capitals_too() -> None:
    assert class_of("EASE") is class_of("ease") is EASE and class_of("Infinite-AE") is InfiniteAE


def test_given_centres_are_a_parameter(small_log: Interactions) -> None:
    """A model with given users as centres is made again with the same ones, and may lose them."""
    model = InfiniteAE(reg=2.0, centres=Summary.of(small_log))
    assert model.get_params()["centres"] is InfiniteAE(**model.get_params()).get_params()["centres"]
    assert model.set_params(centres=50).get_params()["centres"] == 50


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
