"""The command line: one file per command; composes the rooms; the only room that prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """The `infrec` program."""
    try:
        from infrec.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))
