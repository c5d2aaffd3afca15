"""DATA of a command: how it is to be read, and what is read.

A command that `reads_data` has all the options of reading and receives one `Reading`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec.cli import config, console
from infrec.cli.options import DATA, Shown, with_settings
from infrec.cli.spelling import as_options, in_words_of_the_command_line
from infrec.data.columns import ReadOptions
from infrec.errors import ConfigError
from infrec.progress import Progress, silent
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.data import Interactions, ReadReport, Summary
    from infrec.splits import Split


@dataclass(frozen=True)
class Reading(ReadOptions):
    """How DATA is to be read, as a command's options say."""

    items: str | None = setting(None, "a table about items with their titles, joined on the item")
    config: str | None = setting(None, "file that holds these options (default: infrec.toml beside DATA)")

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        own = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in own.items() if value != default}

    def kept(self) -> dict[str, Any]:
        """Those of them that a manifest keeps: no path."""
        return {name: value for name, value in self.given().items() if name in ReadOptions.names()}

    def for_data(self, data: str) -> Reading:
        """These options, and for those that are not given what infrec.toml says about the data."""
        written = config.options_of(data, self.config)
        try:
            Reading.check_names(written, config.NAME)
            Reading(**written)
        except ConfigError as error:
            raise ConfigError(
                f"{str(error).rstrip('.')} (in {self.config or config.beside(data)})."
            ) from None
        given = {name: value for name, value in self.given().items() if name != "config"}
        return Reading(**{**written, **given})

    def load(
        self, data: str, progress: Progress = silent, *, by_row: bool = False, noted: bool = True
    ) -> Interactions:
        """Read DATA as its options say, and tell what was counted and what was not.

        noted: tell it.
        by_row: judge every row by itself alone, as ε and δ need.
        What `infrec distill` or `infrec sample` wrote is read as what it is, whatever the options.
        """
        from infrec import artifacts
        from infrec.data import datasets

        if self.config is not None and not Path(self.config).expanduser().exists():
            command = shlex.join(["infrec", "init", data, "--config", self.config])
            raise ConfigError(
                f"there is no file {self.config!r}; {command} writes it, or leave --config out."
            )
        if artifacts.kind_of(data) not in (None, "dataset"):
            from infrec.data import Summary

            return Summary.load(data)
        chosen = self.for_data(data)
        options = {**chosen.given(), "by_row": by_row or chosen.by_row}
        log = datasets.load(data, progress=progress, **options)
        written = {name: value for name, value in chosen.given().items() if name not in self.given()}
        if noted and written:
            console.note(
                f"{Path(data).name} is read as {Path(self.config or config.NAME).name} says: "
                f"{shlex.join(as_options(written))}"
            )
        for line in report_lines(log.report) if noted else ():
            console.note(line)
        return log

    def again(self, data: str, seed: int) -> str:
        """DATA in the words of a next command that is to read and split it in the same way."""
        words = [data, *as_options(self.given())]
        return shlex.join([*words, *([] if seed == 42 else ["--seed", str(seed)])])


_READING: dict[str, Any] = {
    "user": Shown("COLUMN"),
    "item": Shown("COLUMN"),
    "rating": Shown("COLUMN"),
    "time": Shown("COLUMN"),
    "weight": Shown("COLUMN"),
    "positive": Shown("RULE"),
    "duplicates": Shown(),
    "min_user": Shown("N"),
    "min_item": Shown("N"),
    "items": Shown("FILE"),
    "items_id": Shown("COLUMN"),
    "items_title": Shown("COLUMN"),
    "encoding": Shown("NAME"),
    "delimiter": Shown("TEXT"),
    "no_header": Shown(),
    "strict": Shown(),
    "config": Shown("FILE"),
}
_DISLIKES: dict[str, Any] = {"negative": Shown("RULE")}
_NEW_ITEMS: dict[str, Any] = {"new_items": Shown()}

reads_data = with_settings("reading", Reading, panel=DATA, **_READING)
reads_dislikes = with_settings("reading", Reading, panel=DATA, **_READING, **_DISLIKES)
reads_all = with_settings("reading", Reading, panel=DATA, **_READING, **_DISLIKES, **_NEW_ITEMS)


@dataclass(frozen=True, eq=False)
class Source:
    """The source of a distillation and how to read it: here, or in the process that does the work."""

    data: str
    reading: Reading
    previous: Summary | None
    set_aside: float | None
    seed: int

    def read(self, progress: Progress) -> Split:
        """Train, validation and test part, the same whoever reads them."""
        return self.split(self.reading.load(self.data, progress))

    def read_log(self, progress: Progress) -> Interactions:
        """The log for a distillation with (ε, δ): whether a row counts depends on that row alone."""
        return self.reading.load(self.data, progress, by_row=True)

    def members(self, log: Interactions) -> Interactions:
        """The log without those set aside, which depends on each user's id alone."""
        import numpy as np

        from infrec.splits import is_set_aside

        if self.set_aside is None:
            return log
        return log.select_users(np.flatnonzero(~is_set_aside(log.users, self.set_aside, self.seed)))

    def split(self, log: Interactions) -> Split:
        """The log's parts without those set aside, over the items of the previous summary too."""
        from infrec.distillation import update
        from infrec.splits import holdout, set_aside

        if self.previous is not None:
            log = update.with_items_of(log, self.previous)
        split = holdout(log, seed=self.seed)
        return split if self.set_aside is None else set_aside(split, self.set_aside, self.seed)[0]

    def noted(self, summary: Summary) -> Summary:
        """The summary, its manifest with how the log was read, and how those set aside are found again."""
        about = {**summary.about, "reading": self.reading.for_data(self.data).kept()}
        if self.set_aside is not None:
            about["set_aside"] = {"share": self.set_aside, "seed": self.seed}
        return replace(summary, about=about)


def report_lines(report: ReadReport | None) -> list[str]:
    """Rows that the reader counted and dropped, in words."""
    if report is None:
        return []
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in report.dropped.items() if count)
    counted = (
        f"{report.source}: {report.kept:,} of {report.rows:,} rows count as interactions; not: {dropped}."
    )
    notes = [in_words_of_the_command_line(text) for text in report.notes]
    return ([counted] if dropped else []) + notes
