"""A log cut into what a model may see, what settings are chosen on, and what is measured."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp

from infrec.data import Interactions
from infrec.errors import DataError


@dataclass(frozen=True, eq=False)
class Split:
    """Three logs over the same users and items. `name` says how it was made, for records and reports."""

    train: Interactions
    val: Interactions
    test: Interactions
    name: str = ""

    def __post_init__(self) -> None:
        for part in (self.val, self.test):
            if part.users != self.train.users or part.items != self.train.items:
                raise DataError("the parts of a split must share their users and items, in the same order.")

    @property
    def test_context(self) -> sp.csr_array:
        """What is known of each user at test time: train and validation together, 0/1 where the data is."""
        return self.train.matrix.maximum(self.val.matrix)
