"""What `infrec distill` does for people's sake: users set aside for an audit; distillation with (ε, δ)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec.errors import DataError

if TYPE_CHECKING:
    from infrec.data import Vocabulary
    from infrec.distillation import Summary
    from infrec.splits import Split


def settings(
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    mechanism: str,
    catalogue: Path | None,
    run: dict[str, Any],
    search: bool,
) -> dict[str, Any]:
    """What `distill` takes for a guarantee; {} without one. Refuses early what would void it."""
    if epsilon is None and delta is None and noise_multiplier is None:
        if catalogue is not None:
            raise DataError(
                "--catalogue says which items are public; expected --epsilon and --delta beside it."
            )
        return {}
    from infrec.distillation import guarantee, guaranteed

    guarantee.check(epsilon, delta)
    assert delta is not None
    guaranteed.refuse({**run, "search": search}, mechanism, catalogue is not None)
    if epsilon is not None and noise_multiplier is None:  # is the accountant there?
        guarantee.multiplier_for(epsilon, delta, public_items=catalogue is not None)
    items = None if catalogue is None else public_items(catalogue)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "noise_multiplier": noise_multiplier,
        "mechanism": mechanism,
        "catalogue": items,
    }


def public_items(path: Path) -> Vocabulary:
    """A list of item ids: the column `item` (or the first one) of a Parquet or CSV file, each once."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from infrec.data import Vocabulary

    try:
        table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    except (OSError, pa.ArrowException) as failure:
        raise DataError(
            f"cannot read the catalogue {path}: {failure}; expected a Parquet or CSV file."
        ) from None
    names = table.column_names
    column = next((name for name in ("item", "item_id", "itemId", "id") if name in names), names[0])
    ids = table.column(column).combine_chunks().unique().drop_null()
    if not len(ids):
        raise DataError(f"the catalogue {path} names no item; expected a column of item ids.")
    return Vocabulary.of(ids)


def without_some(split: Split, share: float | None, seed: int) -> Split:
    """The split without the users who are set aside, where some are to be."""
    if share is None:
        return split
    from infrec.splits import set_aside

    return set_aside(split, share, seed)[0]


def noted(summary: Summary, share: float | None, seed: int) -> Summary:
    """The summary whose manifest says who was set aside: by the rule that finds them again, not by name."""
    if share is None:
        return summary
    return replace(summary, about={**summary.about, "set_aside": {"share": share, "seed": seed}})
