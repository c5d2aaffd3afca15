"""The log that a summary was made from: how it was read, and whether another one is given in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from infrec.cli import console
from infrec.cli.reading import Reading
from infrec.errors import DataError

if TYPE_CHECKING:
    from infrec.data import Interactions, Vocabulary


def reading_of(release: object, about: Mapping[str, Any], given: Reading, data: str) -> Reading:
    """How the source of a summary was read, where the command's own options do not say otherwise.

    release: the summary's directory; about: the facts of its manifest; data: the log that is to be read.
    """
    reading = replace(Reading.from_dict(about.get("reading") or {}), **given.given())
    if reading != given:
        console.note(f"as the source of {release} was: {reading.again(data, seed=42)}")
    return reading


def check_source(
    release: object, about: Mapping[str, Any], items: Vocabulary, log: Interactions, data: str
) -> None:
    """Refuse a log that a summary was not made from; say where that cannot be seen.

    items: of the summary; data: the name of the log.
    """
    from infrec.splits import provenance

    if "guarantee" in about:
        shared = int((log.items.positions(items.ids) >= 0).sum())
        if not shared or (shared < len(items) and not about["guarantee"]["public_items"]):
            raise DataError(
                f"{release} was made from another log than {data}, which has {shared:,} of its "
                f"{len(items):,} items; expected the log that it was made from."
            )
        console.note(
            f"{release} keeps no fingerprint of its log, which (ε, δ) would not cover: only its items were "
            f"compared ({shared:,} of {len(items):,} are in {data})."
        )
        return
    same = provenance.is_source(log, about)
    if same is None:
        console.note(
            f"{release} has no fingerprint of its log (it is older, or was made otherwise): whether {data} "
            "is that log was not checked."
        )
    elif not same:
        source = about["source"]
        raise DataError(
            f"{release} was made from another log than {data}, of {source['users']:,} users, "
            f"{source['items']:,} items and {source['interactions']:,} interactions in its train part; "
            f"{data} has {log.n_users:,} users, {log.n_items:,} items and {log.n_interactions:,} "
            "interactions in all: give that log, read with the same options."
        )
