"""How long and how much memory the generator needs: `python benchmarks/generate.py [--full]`.

Without --full, 5 million interactions and what that means for 100 million; with it, the shape of the Netflix
prize (476,000 users × 17,000 items × 100 million interactions), written to a temporary folder.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from infrec.data.synthetic import write_log

NETFLIX = {"users": 476_000, "items": 17_000, "interactions": 100_000_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all 100 million")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    share = 1 if given.full else 20
    size: dict[str, Any] = {
        **NETFLIX,
        "users": NETFLIX["users"] // share,
        "interactions": NETFLIX["interactions"] // share,
    }
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        path = write_log(Path(folder) / "log.parquet", **size, seed=given.seed, threads=given.threads)
        seconds = time.perf_counter() - start
        written = path.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024**2 if sys.platform == "darwin" else 1024
    )
    rate = size["interactions"] / seconds / 1e6
    print(f"{size['users']:,} users × {size['items']:,} items, {size['interactions']:,} interactions")
    print(f"{seconds:.1f} s with {given.threads} threads ({rate:.2f} million/s), {written / 1e6:,.0f} MB")
    print(f"peak memory {peak:,.0f} MB")
    if not given.full:
        print(f"100 million would take {100 / rate:.0f} s")


if __name__ == "__main__":
    main()
