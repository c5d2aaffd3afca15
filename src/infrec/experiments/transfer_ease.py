"""Figure 2: does EASE learn from summaries that were made through ∞-AE?"""

from __future__ import annotations

from infrec.experiments import scaling
from infrec.experiments.base import Experiment, Findings, Plan
from infrec.experiments.cells import Cell
from infrec.experiments.rows import Results

MODEL = "ease"


def cells(plan: Plan) -> list[Cell]:
    return scaling.cells(plan, MODEL)


def findings(results: Results) -> Findings:
    rows, datasets = results.rows, results.datasets()
    return Findings(
        claims=[scaling.transfers(dataset, rows.where(dataset=dataset), MODEL) for dataset in datasets],
        figures=scaling.figures("transfer-ease", MODEL, rows, datasets) if rows else (),
        tables=[scaling.table(MODEL, dataset, rows) for dataset in datasets],
        notes=scaling.notes(),
    )


EXPERIMENT = Experiment(
    name="transfer-ease",
    title="Do summaries transfer to EASE?",
    source="Figure 2",
    about="EASE on the same samples and summaries as ∞-AE in sample-efficiency.",
    cells=cells,
    findings=findings,
)
