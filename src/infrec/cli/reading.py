"""DATA of a command: how it is to be read, and what is read.

A command that `reads_data` has all the options of reading and receives one `Reading`. Options that are not
given may stand in `infrec.toml` beside the data:

    ["ratings.csv"]
    items = "books.csv"
    positive = "rating >= 4"

A section has the name of a file or folder. Its keys are options as the command line spells them; paths in it
are relative to infrec.toml. Sentences of the package name options as Python has them, `` `user="who"` ``;
commands print them as they have them, `--user who`.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrec.cli import console
from infrec.cli.options import DATA, Shown, with_settings
from infrec.data.columns import ReadOptions
from infrec.errors import ConfigError, DataError, first_line
from infrec.progress import Progress, silent
from infrec.settings import setting

if TYPE_CHECKING:
    from infrec.data import Interactions, ReadReport, Summary, Vocabulary
    from infrec.splits import Split

FILE_NAME = "infrec.toml"


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
        written = options_in_file(data, self.config)
        try:
            Reading.check_names(written, FILE_NAME)
            Reading(**written)
        except ConfigError as error:
            raise ConfigError(f"{str(error).rstrip('.')} (in {self.config or file_beside(data)}).") from None
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
                f"{Path(data).name} is read as {Path(self.config or FILE_NAME).name} says: "
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


# ---- infrec.toml -------------------------------------------------------------------------------------------
def file_beside(data: str) -> Path:
    """Where the options of this data stand, if they do."""
    return Path(data).expanduser().parent / FILE_NAME


def options_in_file(data: str, file: str | None = None) -> dict[str, Any]:
    """The options for this data, by their names in Python; none where there is no file or no section.

    file: a file that the user named, which must have a section for the data.
    """
    path = file_beside(data) if file is None else Path(file).expanduser()
    if file is None and not path.is_file():
        return {}
    try:
        sections = tomllib.loads(path.read_text())
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({first_line(error)}); mend it or leave it out.") from None
    name = Path(data).name
    section = sections.get(name)
    if section is None and file is None:
        return {}
    if not isinstance(section, Mapping):
        has = ", ".join(f'["{one}"]' for one, value in sections.items() if isinstance(value, Mapping))
        raise ConfigError(f'{path} has no section ["{name}"]; it has {has or "none"}: add one.')
    options = {str(key).replace("-", "_"): value for key, value in section.items()}
    if isinstance(items := options.get("items"), str) and "://" not in items:
        options["items"] = str(path.parent / Path(items).expanduser())
    return options


# ---- options in words --------------------------------------------------------------------------------------
_IN_PYTHON = re.compile(r"`([a-z_]+=[^`]*)`")


def as_options(values: Mapping[str, object]) -> list[str]:
    """Options of reading as words of a command line."""
    words: list[str] = []
    for name, value in values.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def advised(text: str) -> list[dict[str, object]]:
    """The options of reading that a text advises, each of its proposals by itself: `` `user="who"` ``."""
    proposals = []
    for written in _IN_PYTHON.findall(text):
        try:
            call = ast.parse(f"read({written})", mode="eval").body
            values = {str(one.arg): ast.literal_eval(one.value) for one in getattr(call, "keywords", ())}
        except (SyntaxError, ValueError):
            continue
        proposals += [values] if values.keys() <= set(ReadOptions.names()) else []
    return proposals


def in_words_of_the_command_line(text: str) -> str:
    """A sentence that names options as Python has them, with those of a command instead."""

    def spelled(match: re.Match[str]) -> str:
        return "".join(shlex.join(as_options(values)) for values in advised(match[0])) or match[0]

    name, verb, rest = text.partition(" is ")
    if verb and name in ReadOptions.names():  # "min_user is 0; expected …"
        text = f"{as_options({name: True})[0]} is {rest}"
    return _IN_PYTHON.sub(spelled, text)


def next_command(argv: Sequence[str], text: str) -> str | None:
    """The command line with what a text advises first; None where it advises nothing."""
    proposals = advised(text)
    if not proposals:
        return None
    words = list(argv)
    for name, value in proposals[0].items():
        flag = as_options({name: True})[0]
        if flag in words:
            at = words.index(flag)
            del words[at : at + (1 if value is True else 2)]
        words += as_options({name: value})
    return shlex.join(["infrec", *words])


# ---- the log that a summary was made from ------------------------------------------------------------------
def reading_of(release: object, about: Mapping[str, Any], given: Reading, data: str) -> Reading:
    """How the source of a summary was read, where the command's own options do not say otherwise.

    release: the summary's directory; about: the facts of its manifest; data: the log that is to be read.
    """
    reading = replace(Reading.from_dict(about.get("reading") or {}), **given.given())
    if reading != given:
        console.note(f"as the source of {release} was: {reading.again(data, seed=42)}")
    return reading


def check_source(
    release: object, about: Mapping[str, Any], items: Vocabulary, log: Interactions, data: str
) -> None:
    """Refuse a log that a summary was not made from; say where that cannot be seen.

    items: of the summary; data: the name of the log.
    """
    from infrec.splits import provenance

    if "guarantee" in about:
        shared = int((log.items.positions(items.ids) >= 0).sum())
        if not shared or (shared < len(items) and not about["guarantee"]["public_items"]):
            raise DataError(
                f"{release} was made from another log than {data}, which has {shared:,} of its "
                f"{len(items):,} items; expected the log that it was made from."
            )
        console.note(
            f"{release} keeps no fingerprint of its log, which (ε, δ) would not cover: only its items were "
            f"compared ({shared:,} of {len(items):,} are in {data})."
        )
        return
    same = provenance.is_source(log, about)
    if same is None:
        console.note(
            f"{release} has no fingerprint of its log (it is older, or was made otherwise): whether {data} "
            "is that log was not checked."
        )
    elif not same:
        source = about["source"]
        raise DataError(
            f"{release} was made from another log than {data}, of {source['users']:,} users, "
            f"{source['items']:,} items and {source['interactions']:,} interactions in its train part; "
            f"{data} has {log.n_users:,} users, {log.n_items:,} items and {log.n_interactions:,} "
            "interactions in all: give that log, read with the same options."
        )
