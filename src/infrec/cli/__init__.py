"""The command line: one file per command; composes the rooms; the only room that prints.

Nothing is imported here before `main`, so that Ctrl-C is taken care of from the start.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """The `infrec` program."""
    from infrec.cli import interrupts

    interrupts.install()
    import sys

    from infrec.cli.app import run

    code = run(sys.argv[1:] if argv is None else list(argv))
    interrupts.end(code)
    sys.exit(code)
