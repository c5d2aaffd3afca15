"""`infrec demo --serve`: the page on the embedded data, one command from a fresh clone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infrec.cli import console
from infrec.cli.reading import Reading
from infrec.cli.serve import need_extra


def demo_serve(out: Path, seed: int, port: int, json: bool, *, users: int, steps: int) -> None:
    """Fit on all users, distil a few synthetic ones, and become the server of both."""
    need_extra()
    from infrec.distillation import distill
    from infrec.models import InfiniteAE
    from infrec.serve import Settings, bind
    from infrec.splits import holdout

    bind(Settings(port=port)).close()  # a port that is taken is said now, not after the work
    if not json:
        console.out().print(
            "[bold]infrec demo[/]: invented films, and invented people who like some of them; "
            f"fitting on all of them, and distilling them into {users} synthetic people"
        )
    with console.bars() as progress:
        log = Reading().load("demo", progress)
        InfiniteAE().fit(log, progress=progress).save(out / "full")
        console.saved(out / "full")
        distill(holdout(log, seed=seed), users=users, steps=steps, seed=seed, progress=progress).save(
            out / "distilled"
        )
        console.saved(out / "distilled")
    words = [f"full={out / 'full'}", f"distilled={out / 'distilled'}", "--port", str(port), "--quiet"]
    words += ["--json"] if json else ["--open"]
    sys.stdout.flush()
    # Another program in this process: distilling has started JAX, and the server must be without it.
    os.execv(sys.executable, [sys.executable, "-m", "infrec.cli", "serve", *words])
