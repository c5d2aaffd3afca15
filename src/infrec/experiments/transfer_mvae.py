"""An appendix figure: does MVAE, a network that is trained, learn from the same summaries?"""

from __future__ import annotations

from collections.abc import Mapping

from infrec.experiments import scaling
from infrec.experiments.base import Claim, Experiment, Findings, Plan, claim
from infrec.experiments.cells import DISTILLED, FULL, Cell
from infrec.experiments.names import HEURISTICS, name, number
from infrec.experiments.rows import Results, Rows

MODEL = "mvae"
APART = 0.1  # of a share: what counts as another behaviour


def cells(plan: Plan) -> list[Cell]:
    return scaling.cells(plan, MODEL)


def findings(results: Results) -> Findings:
    rows, datasets = results.rows, results.datasets()
    of_models = {
        MODEL: rows,
        "ease": results.others("transfer-ease").rows,
        "infinite-ae": results.others("sample-efficiency").rows,
    }
    claims = []
    for dataset in datasets:
        here = rows.where(dataset=dataset)
        claims += [
            scaling.transfers(dataset, here, MODEL),
            better_than_full(dataset, here),
            interactions_differ(
                dataset, {model: own.where(dataset=dataset) for model, own in of_models.items()}
            ),
        ]
    return Findings(
        claims=claims,
        figures=scaling.figures("transfer-mvae", MODEL, rows, datasets) if rows else (),
        tables=[scaling.table(MODEL, dataset, rows) for dataset in datasets],
        notes=scaling.notes(),
    )


def better_than_full(dataset: str, rows: Rows, metric: str = "HR@10") -> Claim:
    text = "MVAE on distilled data is better than MVAE on the full data"
    full = rows.get(source=FULL, metric=metric)
    made = rows.where(metric=metric, source=lambda source: source.startswith(DISTILLED))
    if full is None or not made:
        return claim(text, dataset, None, "nothing measured yet.")
    best = max(made, key=lambda row: row.value)
    return claim(
        text,
        dataset,
        best.value > full.value,
        f"{metric} {number(metric, best.value)} on {name(best.source)} with {best.users:,} users, "
        f"{number(metric, full.value)} on all {full.users:,} users.",
    )


def interactions_differ(dataset: str, of_models: Mapping[str, Rows], metric: str = "HR@10") -> Claim:
    """Where Interaction-RNS stands among the heuristics for MVAE, for EASE and for ∞-AE."""
    text = (
        "Interaction-RNS is the exception among the samplers: for MVAE it scales as for ∞-AE, not as for EASE"
    )
    shares = {}
    for model, own in of_models.items():
        averages = scaling.means(own, metric, HEURISTICS)
        others = [value for source, value in averages.items() if source != "interaction-rns"]
        if "interaction-rns" not in averages or not others:
            needed = "transfer-mvae, transfer-ease and sample-efficiency"
            return claim(text, dataset, None, f"needs {needed}; {name(model)} is not measured yet.")
        shares[model] = averages["interaction-rns"] / (sum(others) / len(others))
    from_ease, from_ours = (abs(shares[MODEL] - shares[other]) for other in ("ease", "infinite-ae"))
    lines = ", ".join(f"{share:.3f} for {name(model)}" for model, share in shares.items())
    return claim(
        text,
        dataset,
        from_ease > APART and from_ours < from_ease,
        f"its mean {metric} relative to the other samplers' is {lines} (to hold: more than {APART:g} from "
        f"EASE, and nearer to ∞-AE).",
    )


EXPERIMENT = Experiment(
    name="transfer-mvae",
    title="Do summaries transfer to MVAE?",
    source="appendix",
    about="MVAE on the same samples and summaries as ∞-AE in sample-efficiency.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban-book"),
)
