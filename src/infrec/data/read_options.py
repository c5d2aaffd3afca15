"""How a source is to be read: one declaration for the readers, the command line and what is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infrec.settings import Settings, setting

Duplicates = Literal["first", "sum"]


@dataclass(frozen=True)
class ReadOptions(Settings):
    """Columns by name or position where they are not recognised, and which rows count."""

    user: str | int | None = setting(None, "column of user ids")
    item: str | int | None = setting(None, "column of item ids")
    rating: str | int | None = setting(None, "column of ratings")
    time: str | int | None = setting(None, "column of times")
    weight: str | int | None = setting(None, "column of weights")
    positive: str | None = setting(None, 'which rows count as interactions, such as "rating >= 4"')
    duplicates: Duplicates = setting("first", "repeated pairs: keep the first, or sum")
    strict: bool = setting(False, "refuse damaged rows instead of dropping and counting them")
    by_row: bool = setting(False, "judge every row by itself alone, as ε and δ need")

    @property
    def columns(self) -> dict[str, str | int | None]:
        """The column given for each role; None where it is to be recognised."""
        return {role: getattr(self, role) for role in ("user", "item", "rating", "time", "weight")}
