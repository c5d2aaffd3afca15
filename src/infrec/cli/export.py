"""`infrec export`: a log, a sample or a summary as a file that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from infrec.cli import console
from infrec.cli.options import Answer, argument, option
from infrec.cli.reading import Reading, reads_data
from infrec.report import numbers


@reads_data
def export(
    data: Annotated[
        str,
        argument(
            "DATA_OR_SUMMARY",
            "A file, a directory of Parquet or CSV, a name from [bold]infrec datasets list[/], or what "
            "[bold]infrec distill[/] or [bold]infrec sample[/] wrote.",
        ),
    ],
    format: Annotated[
        Literal["recbole", "csv", "parquet", "npz"],
        option("--format -f", "What to write.", case_sensitive=False),
    ],
    out: Annotated[Path, option("--out -o PATH", "The file to write; replaced whole.")],
    reading: Reading = Reading(),
) -> Answer:
    """Write a log, a sample or a summary for other programs: RecBole, pandas, implicit, your own.

    [bold]Examples[/]

      infrec export summary --format csv --out summary.csv
      infrec export summary --format recbole --out dataset/ml-small
      infrec export ml-1m --format npz --out ml-1m.npz
    """
    from infrec.data.export import export as write

    with console.bars() as progress:
        log = reading.load(data, progress)
        files = write(log, out, format)
    for file in files:
        console.saved(file)
    if log.parts is not None and format in ("recbole", "npz"):
        console.note(f"the data's own split is not part of a {format} file; csv and parquet keep it.")
    absent = int((log.item_counts == 0).sum())
    if absent and format in ("csv", "parquet"):
        console.note(
            f"{absent:,} of {log.n_items:,} items have no interaction here; npz and recbole keep them."
        )
    n_bytes = sum(file.stat().st_size for file in files)
    document = {
        "source": data,
        "format": format,
        "files": [str(file) for file in files],
        "users": log.n_users,
        "items": log.n_items,
        "interactions": log.n_interactions,
        "weighted": log.weighted,
        "bytes": n_bytes,
    }
    names = ", ".join(f"[bold]{console.plain(file)}[/]" for file in files)
    return document, (
        f"{log.n_interactions:,} interactions of {log.n_users:,} users written to {names} "
        f"({numbers.size(n_bytes)})."
    )
