"""The balance of a list, declared once for Python, the command line and the service."""

from __future__ import annotations

from dataclasses import dataclass

from infrec.settings import Settings, setting


@dataclass(frozen=True)
class Balance(Settings):
    """Wishes for lists beside the scores."""

    diversity: float = setting(
        0.0,
        "how much lists avoid items that are alike: 0 goes by scores alone, 0.3 is noticeable, 1 is the most",
        least=0,
        most=1,
    )
    popularity: float = setting(
        0.0,
        "below 0, items better known than those of the history stand lower; above 0, less known ones do",
        least=-1,
        most=1,
    )

    @property
    def neutral(self) -> bool:
        """Whether lists go by scores alone."""
        return not self.diversity and not self.popularity
