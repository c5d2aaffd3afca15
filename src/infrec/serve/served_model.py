"""A model as it is served: what it answers with, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrec.data import Interactions
from infrec.models.base import Recommender
from infrec.serve.catalogue import Catalogue, Id, characteristic, compact, index_of, portable
from infrec.serve.errors import Problem

LIKES = 5  # titles that say what a user likes
MOST_USERS, MOST_INTERACTIONS = 2_000, 200_000  # of a summary that is sent to be drawn


@dataclass(eq=False)
class Served:
    """A model under the name it answers to, with its items prepared for answers.

    hash: of everything in its directory. kind: what it was fitted on: "log", "summary" or "sample".

    The users of a summary are made up and may be shown; of real ones only sums are.
    """

    name: str
    hash: str
    model: Recommender
    kind: str
    catalogue: Catalogue = field(init=False)
    users: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.catalogue = Catalogue(self.log)
        self.users = index_of(self.log.users)
        self.label = {"name": self.name, "hash": self.hash}
        self.label_json = compact(self.label)

    @property
    def synthetic(self) -> bool:
        return self.kind == "summary"

    @property
    def log(self) -> Interactions:
        return self.model.log

    @cached_property
    def popularity(self) -> NDArray[np.float32]:
        return self.model.popularity

    @property
    def explains(self) -> bool:
        return hasattr(self.model, "contributions")

    @property
    def explorable(self) -> bool:
        small = self.log.n_users <= MOST_USERS and self.log.n_interactions <= MOST_INTERACTIONS
        return self.synthetic and small

    def facts(self) -> dict[str, Any]:
        """The model's entry in the list of models."""
        return {
            **self.label,
            "type": self.model.name,
            "settings": self.model.selected,
            "users": self.log.n_users,
            "items": self.log.n_items,
            "interactions": self.log.n_interactions,
            "kind": self.kind,
            "summary": self.synthetic,
            "discrete": not self.log.weighted,
            "genres": self.catalogue.genre_names,
            "titles": self.catalogue.has_titles,
            "explains": self.explains,
            "explorable": self.explorable,
        }

    @property
    def people(self) -> Interactions:
        """The users that an explanation is a sum over: the model's centres."""
        return getattr(self.model, "centres", self.log)

    def likes(self, user: int) -> list[str]:
        """Titles that describe a synthetic user best; none for a real user."""
        if not self.synthetic:
            return []
        best = characteristic(self.people, user, self.catalogue.counts)[:LIKES]
        return [self.catalogue.titles[at] for at in best]

    def user_name(self, user: int) -> Id | None:
        return portable(self.people.users.ids[user].as_py()) if self.synthetic else None

    def row_of(self, user: Id) -> int | None:
        return self.users.get(str(user))

    def explore(self, original: Served | None) -> dict[str, Any]:
        """The synthetic users, what each has, and how popular items are with them and in the original."""
        if not self.explorable:
            raise Problem(
                404,
                "not_a_summary",
                f"the model {self.name!r} was not served from a summary, or one too large to be drawn; "
                "serve a directory that `infrec distill` wrote.",
            )
        log, catalogue = self.log, self.catalogue
        users = []
        for row, user in enumerate(log.users.ids.to_pylist()):
            order = characteristic(log, row, catalogue.counts)
            entry: dict[str, Any] = {
                "user": portable(user),
                "size": len(order),
                "items": order,
                "likes": [catalogue.titles[at] for at in order[:LIKES]],
            }
            if log.weighted:
                dense = log.matrix[[row]].toarray().ravel()
                entry["weights"] = [round(float(weight), 4) for weight in dense[order]]
            users.append(entry)
        original_counts = np.zeros(log.n_items, np.int64) if original is None else original.catalogue.counts
        # What no synthetic user has, but real ones did, is worth seeing too.
        shown = np.flatnonzero((catalogue.counts > 0) | (original_counts > 0))
        place = np.full(log.n_items, -1)
        place[shown] = np.arange(len(shown))
        for entry in users:
            entry["items"] = place[entry["items"]].tolist()
        items = [
            {
                "item": catalogue.ids[at],
                "title": catalogue.titles[at],
                "genres": catalogue.genres[at],
                "popularity": int(catalogue.counts[at]),
                "original": None if original is None else int(original_counts[at]),
            }
            for at in shown.tolist()
        ]
        return {
            "model": self.label,
            "summary_users": log.n_users,
            "original_users": None if original is None else original.log.n_users,
            "users": users,
            "items": items,
        }
