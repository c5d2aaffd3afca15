"""An appendix figure: who is re-identified when more and more of each history is known?"""

from __future__ import annotations

from infrec.experiments import deanonymise
from infrec.experiments.base import Experiment, Findings, Plan
from infrec.experiments.cells import Cell
from infrec.experiments.deanonymise import Level
from infrec.experiments.rows import Results

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
QUICK_SHARES = (0.1, 0.5, 0.9)
LEVELS = tuple(Level(share, 0.0) for share in SHARES)


def cells(plan: Plan) -> list[Cell]:
    return deanonymise.cells(plan, [one for one in LEVELS if not plan.quick or one.reveal in QUICK_SHARES])


def findings(results: Results) -> Findings:
    datasets, rows = results.datasets(), results.rows
    caption = (
        "Users re-identified from a release when a growing share of each history is known, without noise. "
        "Bands are 95 % intervals over users; PopRec names what is popular in the summary."
    )
    drawn = deanonymise.figures(
        "deanonymise-reveal",
        caption,
        "known of each history (%)",
        results,
        LEVELS,
        lambda level: 100 * level.reveal,
    )
    return Findings(
        claims=[
            deanonymise.nothing_against_everybody(dataset, rows.where(dataset=dataset), LEVELS[-1])
            for dataset in datasets
        ],
        figures=drawn,
        tables=[deanonymise.table(dataset, rows.where(dataset=dataset), LEVELS) for dataset in datasets],
        notes=deanonymise.NOTES,
    )


EXPERIMENT = Experiment(
    name="deanonymise-reveal",
    title="Who is re-identified by a part of a history?",
    source="appendix",
    about=f"Releases of {deanonymise.USERS} users, random ones or distilled, attacked with partial copies.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban"),
)
