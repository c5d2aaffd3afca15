"""A figure of the appendix: EASE on users that a GAN makes, in the manner of AR-CF, beside Distill-CF's."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from infrec.paper.cells import FULL, GENERATED, Cell, Data, pairs
from infrec.paper.experiment import QUICK_EPOCHS, Judged, Plan, claimed_of_summaries
from infrec.paper.results import HR, Results
from infrec.paper.scaling import NOTES, experiment, tables, varied
from infrec.paper.verdicts import Answer, estimate, every, margin
from infrec.report.document import Table

PRACTICAL = 0.9


def augmented(plan: Plan, dataset: str) -> Iterator[Cell]:
    """The cells of transfer-ease, and AR-CF's users in the same numbers."""
    yield from varied("ease", plan, dataset)
    quick = pairs(epochs=QUICK_EPOCHS) if plan.quick else ()
    for users in plan.budgets(dataset):
        yield plan.cell(dataset, Data(GENERATED, users, settings=quick), "ease")


@claimed_of_summaries(
    "Training only on users made by augmentation is impractical: they are realistic, not informative"
)
def impractical(here: Results, kind: str) -> Judged:
    """Below Distill-CF's users at every budget, and never near the full data."""
    rows = here.rows.where(metric=HR)
    full, generated = rows.one(source=FULL), rows.where(source=GENERATED).by("users")
    best = generated.best
    lines: list[str] = []
    answers: list[Answer] = []
    for other, one in rows.pairs("users", {"source": kind}, {"source": GENERATED}):
        random = rows.get(source="user-rns", users=one.users)
        answers.append(margin(other, one))
        line = f"{one.users:,} users: AR-CF-style {one}, distilled {other}"
        lines.append(f"{line}, User-RNS {random}" if random else line)
    answers += [estimate(lambda a, b: PRACTICAL * b - a, row, full).above() for row in generated]
    share = 100 * best.value / full.value if full.value else 0.0
    return every(answers), (
        f"{HR} of EASE with {'; '.join(lines)}; at its best AR-CF-style reaches {share:.0f} % of {full} on "
        "all users"
    )


def looks(here: Results) -> Table:
    """How much generated users look like the log's, by their number: untrained, trained, and real ones."""
    sides = {"untrained": "untrained", "trained": "trained", "real": "real users"}
    keys = {"popularity": "popularity", "co_occurrence": "co-occurrence"}
    realism: dict[int, list[Any]] = {}
    for record in here.records:
        if about := record["data"].get("realism"):
            realism.setdefault(record["data"]["users"], []).append(about)
    lines = [
        (f"{users:,}", *(f"{fmean(one[side][key] for one in seeds):.3f}" for key in keys for side in sides))
        for users, seeds in sorted(realism.items())
    ]
    return Table(
        f"{here.dataset}: does the AR-CF-style generator learn? Popularity: total variation between the "
        "items' shares and the log's (0: the same). Co-occurrence: correlation of the pairs' correlations "
        "with the log's (1: the same).",
        ("users", *(f"{key}, {side}" for key in keys.values() for side in sides.values())),
        lines,
    )


NOTE_ON_AR_CF = (
    "AR-CF-style: a conditional GAN of our own making, on profiles from an SVD; AR-CF's code is not "
    "published. It is trained once for each seed on the whole train part, whatever the number of users that "
    "are then made. Only its user generator is used, as in the paper."
)


AUGMENTATION = experiment(
    "augmentation",
    "ease",
    title="How do distilled users compare with augmented ones?",
    source="appendix",
    about="EASE on users of an AR-CF-style GAN, on distilled and on sampled ones, 50 to 2,000 of them.",
    varied=augmented,
    claims=(impractical,),
    tables=lambda each: [*tables("ease", each), *map(looks, each)],
    notes=(NOTE_ON_AR_CF, *NOTES),
)
