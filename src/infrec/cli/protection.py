"""Privacy options of `infrec distill`: users set aside for an audit; distillation with (ε, δ)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infrec.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from infrec.data import Interactions, Summary, Vocabulary
    from infrec.splits import Split


def settings(
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    catalogue: Path | None,
    run: dict[str, Any],
    search: bool,
) -> dict[str, Any]:
    """Arguments of `distill` for a guarantee; {} without one. Options that would void it are refused here."""
    if epsilon is None and delta is None and noise_multiplier is None:
        if catalogue is not None:
            raise DataError(
                "--catalogue says which items are public; expected --epsilon and --delta beside it."
            )
        return {}
    from infrec.distillation import dp_accounting, private

    dp_accounting.check(epsilon, delta)
    assert delta is not None
    private.refuse({**run, "search": search})
    if epsilon is not None and noise_multiplier is None:  # is the accountant there?
        dp_accounting.multiplier_for(epsilon, delta, public_items=catalogue is not None)
    items, info = (None, None) if catalogue is None else public_items(catalogue)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "noise_multiplier": noise_multiplier,
        "catalogue": items,
        "catalogue_info": info,
    }


def public_items(path: Path) -> tuple[Vocabulary, pa.Table | None]:
    """The ids of a list of items, read as those of a log are, and the titles and genres that it has."""
    from infrec.data import columns as col
    from infrec.data.assemble import item_info, number
    from infrec.data.parsing import encode
    from infrec.data.read import items_source
    from infrec.data.text import TextSource

    source = items_source(path)
    key = col.find("item", source.columns)
    key = key or next((name for name in source.columns if col.normalised(name) == "id"), None)
    headless = False
    if isinstance(source, TextSource):
        known = key is not None or any(col.recognised(name) for name in source.columns)
        if not known and len(source.columns) > 1:
            raise DataError(
                f"the catalogue {path.name} has no column that is recognised as the item; it has "
                f"{col.listed(source.columns)}: give it a header that names the column of ids `item`."
            )
        headless = not known or not source.has_header
        if not known:
            source = TextSource(lambda: path.open("rb"), path.name, header=["item"])
        key = source.columns[0] if headless else key
    key = key or source.columns[0]
    table, _ = source.load([key])
    codes, ids = encode(table.column(key), from_text=source.from_text, what="item")
    items = number(codes[codes >= 0], ids)[1]
    if not len(items):
        raise DataError(f"the catalogue {path.name} names no item; expected a column of item ids.")
    # Of a table with users nothing but the ids is taken: what stands beside them is somebody's.
    if headless or col.find("user", source.columns):
        return items, None
    info = item_info(source, items, key)
    told = [name for name in ("title", "genres") if name in info.column_names]
    return items, info.select(told) if told else None


def without_some(split: Split, share: float | None, seed: int) -> Split:
    """The split without the users who are set aside, where some are to be."""
    if share is None:
        return split
    from infrec.splits import set_aside

    return set_aside(split, share, seed)[0]


def without_users(log: Interactions, share: float | None, seed: int) -> Interactions:
    """The log without the users who are set aside: who that is follows from each id alone."""
    if share is None:
        return log
    from infrec.splits import is_set_aside

    return log.select_users(np.flatnonzero(~is_set_aside(log.users, share, seed)))


def may_leave(release: Path, card: Path | None) -> str:
    """The sentence that says which directory may be passed on, and which may not."""
    stays = "" if card is None else f"; {card.parent} has exact figures of the real users and stays with you"
    return f"{release} may leave the house, all of it is covered by ε and δ{stays}."


def noted(summary: Summary, share: float | None, seed: int) -> Summary:
    """The summary whose manifest says who was set aside: by the rule that finds them again, not by name."""
    if share is None:
        return summary
    return replace(summary, about={**summary.about, "set_aside": {"share": share, "seed": seed}})
