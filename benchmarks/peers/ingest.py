"""The grouping of `infrec datasets prepare` in polars: ids numbered in order, repeats dropped, sorted by
user.

python ingest.py SOURCE FOLDER → {"seconds", "peak_mb", "interactions"}
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import polars as pl


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    begin = time.perf_counter()
    rows = pl.scan_parquet(source) if source.suffix == ".parquet" else pl.scan_csv(source)
    log = (
        rows.select("user", "item", "timestamp")
        .unique(["user", "item"], keep="first", maintain_order=True)
        .with_columns(
            (pl.col("user").rank("dense") - 1).cast(pl.Int32),
            (pl.col("item").rank("dense") - 1).cast(pl.Int32),
        )
        .sort("user", "item")
        .collect()
    )
    log.write_parquet(folder / "polars.parquet", compression="zstd", row_group_size=1 << 22)
    seconds = time.perf_counter() - begin
    (folder / "polars.parquet").unlink()
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    print(json.dumps({"seconds": seconds, "peak_mb": peak * 1024 / 1e6, "interactions": log.height}))


if __name__ == "__main__":
    main()
