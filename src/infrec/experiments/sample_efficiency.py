"""Figure 1 and its appendix: how many users does ∞-AE need?"""

from __future__ import annotations

from infrec.experiments import scaling
from infrec.experiments.base import Experiment, Findings, Plan
from infrec.experiments.cells import Cell
from infrec.experiments.rows import Results

MODEL = "infinite-ae"


def cells(plan: Plan) -> list[Cell]:
    return scaling.cells(plan, MODEL)


def findings(results: Results) -> Findings:
    rows, datasets = results.rows, results.datasets()
    claims = []
    for dataset in datasets:
        here = rows.where(dataset=dataset)
        claims += [
            check(dataset, here)
            for check in (scaling.near_the_line, scaling.best_heuristic, scaling.saturates)
        ]
    return Findings(
        claims=claims,
        figures=scaling.figures("sample-efficiency", MODEL, rows, datasets) if rows else (),
        tables=[scaling.table(MODEL, dataset, rows) for dataset in datasets],
        notes=scaling.notes(),
    )


EXPERIMENT = Experiment(
    name="sample-efficiency",
    title="How sample efficient is ∞-AE?",
    source="Figure 1 and appendix",
    about="∞-AE on samples and summaries of 50 to 2,000 users, and on all users.",
    cells=cells,
    findings=findings,
)
