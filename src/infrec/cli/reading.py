"""The data options, written once: a command that `reads_data` has them all and receives one `Reading`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from infrec.cli import console, options
from infrec.data.read_options import ReadOptions
from infrec.progress import Progress, silent

if TYPE_CHECKING:
    from infrec.data import Interactions, ReadReport


@dataclass(frozen=True)
class Reading(ReadOptions):
    """How DATA is to be read, as a command's options say."""

    def load(self, data: str, progress: Progress = silent, *, by_row: bool = False) -> Interactions:
        """Read DATA as its options say, and tell what was counted and what was not.

        by_row: judge every row by itself alone, as ε and δ need.
        What `infrec distill` or `infrec sample` wrote is read as what it is, whatever the options.
        """
        from infrec import artifacts
        from infrec.data import datasets

        if artifacts.kind_of(data) not in (None, "dataset"):
            from infrec.data import Summary

            return Summary.load(data)
        log = datasets.load(data, progress=progress, **self.to_dict() | {"by_row": by_row})
        for line in what_was_read(log):
            console.note(line)
        return log

    def again(self, data: str, seed: int) -> str:
        """DATA in the words of a next command that is to read and split it in the same way."""
        words = [data]
        for each in fields(self):
            if (value := getattr(self, each.name)) != each.default:
                words += [f"--{each.name}", *([] if value is True else [str(value)])]
        return shlex.join([*words, *([] if seed == 42 else ["--seed", str(seed)])])


reads_data = options.with_settings(
    "reading",
    Reading,
    user=options.Shown("COLUMN"),
    item=options.Shown("COLUMN"),
    rating=options.Shown("COLUMN"),
    time=options.Shown("COLUMN"),
    positive=options.Shown("RULE"),
    duplicates=options.Shown(),
    strict=options.Shown(),
    panel="Data",
)


def what_was_read(log: Interactions) -> list[str]:
    """What the reader counted and dropped, in words."""
    return [] if log.report is None else report_lines(log.report)


def report_lines(report: ReadReport) -> list[str]:
    """A reader's report, in words."""
    lines = []
    dropped = {reason: count for reason, count in report.dropped.items() if count}
    if dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        lines.append(
            f"{report.source}: {report.kept:,} of {report.rows:,} rows count as interactions; not: {reasons}."
        )
    return lines + [str(text) for text in report.notes]
