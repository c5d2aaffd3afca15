"""`infrec audit`: attacks a summary, a sample or a model, and says what they found."""

from __future__ import annotations

import json as json_
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infrec import drafts
from infrec.cli import console, options
from infrec.cli.options import Answer, argument, option
from infrec.cli.reading import Reading, check_source, reading_of, reads_data
from infrec.errors import DataError
from infrec.progress import Progress

if TYPE_CHECKING:
    from infrec.data import Interactions
    from infrec.privacy import Audit, Released

PAGE, RECORD = "audit.html", "audit.json"


@reads_data
def audit(
    release: Annotated[Path, argument("RELEASE", "What infrec distill, infrec sample or infrec fit wrote.")],
    against: Annotated[str, option("--against DATA", "The log that it was made from.")],
    control: Annotated[
        str | None, option("--control DATA", "People like those in the log who were not in it.")
    ] = None,
    shadows: Annotated[
        int,
        option(
            "--shadows N",
            "Shadow releases for the likelihood ratio; each costs a distillation. 16 is a good number.",
            min=0,
        ),
    ] = 0,
    out: Annotated[
        Path | None, option("--out -o DIR", "Where the report goes. Default: RELEASE-audit.")
    ] = None,
    reading: Reading = Reading(),
    seed: options.Seed = 42,
) -> Answer:
    """Attack a summary, a sample or a model: linkage, membership, reconstruction, beside a control group.

    The control are the users that [bold]infrec distill --set-aside[/] kept out, or those of --control. The
    report names users and stays with you; the summary's card gets the result without them.

    [bold]Examples[/]

      infrec distill ml-1m --users 500 --set-aside 0.1 --out summary
      infrec audit summary --against ml-1m
      infrec audit model --against ratings.csv --control others.csv --json
    """
    from infrec.report import html
    from infrec.report.audit import document as page_of
    from infrec.report.audit import paragraph
    from infrec.report.card import add_audit

    out = out or release.with_name(f"{release.name}-audit")
    with console.bars() as progress:
        result = _audited(release, against, control, reading, shadows, seed, progress)
    words = paragraph(result)
    measured = {**result.as_dict(), "findings": words}
    drafts.write_text(out / RECORD, json_.dumps(measured, ensure_ascii=False, allow_nan=False))
    drafts.write_text(out / PAGE, html.render(page_of(result)))
    console.saved(out / PAGE)
    card = add_audit(release, result)
    document = {
        "release": str(release),
        "against": against,
        **measured,
        "leaks": result.leaks,
        "traces": result.traces,
        "report": str(out / PAGE),
        "card": None if card is None else str(card),
    }

    def show() -> None:
        console.say(words)
        for what, why in result.not_measured.items():
            console.note(f"{what}: {why}")
        console.say(f"Report: [bold]{out / PAGE}[/]")

    return document, show


def _audited(
    release: Path,
    against: str,
    control: str | None,
    reading: Reading,
    shadows: int,
    seed: int,
    progress: Progress,
) -> Audit:
    """Who was in, who was not, and everything that the attacks say of them."""
    from infrec.distillation import dp_accounting as promise
    from infrec.privacy import audit as attack
    from infrec.splits import holdout

    released, about = opened(release)
    reading = reading_of(release, about, reading, against)
    log = reading.load(against, progress)
    if released.about["kind"] != "model":
        check_source(release, about, released.items, log, against)
    members, aside, cut = _members(log, released, about, seed)
    if released.about["kind"] == "model" and members is log:  # made from something else than this log
        released = replace(released, remake=None)
    control_from = "users set aside at distillation"
    if control is not None:
        aside, control_from = reading.load(control, progress), "given"
        if shared := int((log.users.positions(aside.users.ids) >= 0).sum()):
            console.note(
                f"{shared:,} of the control's {aside.n_users:,} users have ids that are in --against too; a "
                "control of people who were in the log hides what leaks, so check that they are others."
            )
        if cut:  # a longer history would tell the groups apart by itself
            aside = holdout(aside, seed=int(about.get("seed", seed))).train
    return attack(
        released,
        members,
        aside,
        control_from=control_from,
        shadow_runs=shadows,
        guarantee=promise.with_epsilon(about.get("guarantee")),
        seed=seed,
        progress=progress,
    )


def opened(release: Path) -> tuple[Released, dict[str, Any]]:
    """The release in a directory, as an attacker holds it, and its manifest."""
    from infrec import artifacts, models
    from infrec.data import Summary
    from infrec.privacy import Released

    kind = artifacts.kind_of(release)
    if kind in ("summary", "sample"):
        summary = Summary.load(release)
        return Released.summary(summary), dict(summary.about)
    if kind == "model":
        return Released.of_model(models.load(release)), {}
    raise DataError(
        f"{release} is {'a ' + kind if kind else 'nothing that infrec wrote'}; expected a summary, a "
        "sample or a model."
    )


def _members(
    log: Interactions, released: Released, about: dict[str, Any], seed: int
) -> tuple[Interactions, Interactions | None, bool]:
    """The people whose histories went in, as they did, those who were set aside, and whether the histories
    are train parts."""
    from infrec.privacy.matching import over
    from infrec.splits import holdout, is_set_aside, set_aside

    if released.about["kind"] == "model":  # which may hold the train parts alone (`fit --train-only`)
        held = released.model.log
        at = log.users.positions(held.users.ids)
        whole = over(log, held.items)[at]
        if (at < 0).any() or whole.multiply(held.matrix > 0).nnz < held.n_interactions:
            return log, None, False  # it was fitted on something else, such as a summary
        return held, None, held.n_interactions < whole.nnz
    if "guarantee" in about and log.parts is None:  # (ε, δ) takes all interactions
        if (rule := about.get("set_aside")) is None:
            return log, None, False
        out = is_set_aside(log.users, rule["share"], rule["seed"])
        return log.select_users((~out).nonzero()[0]), log.select_users(out.nonzero()[0]), False
    split = holdout(log, seed=int(about.get("seed", seed)))
    if (rule := about.get("set_aside")) is None:
        return split.train, None, True
    kept, aside = set_aside(split, rule["share"], rule["seed"])
    return kept.train, aside, True
