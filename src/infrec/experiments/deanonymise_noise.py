"""An appendix figure: who is re-identified when what the attacker knows is noisy?"""

from __future__ import annotations

from itertools import pairwise

from infrec.experiments import deanonymise
from infrec.experiments.base import Claim, Experiment, Findings, Plan, claim
from infrec.experiments.cells import Cell
from infrec.experiments.deanonymise import NOBODY, RELEASES, SAMPLED, Level, found
from infrec.experiments.names import name
from infrec.experiments.rows import Results, Rows

REVEAL = 0.5
NOISES = (0.0, 0.5, 1.0, 2.0, 5.0)
QUICK_NOISES = (0.0, 1.0, 5.0)
LEVELS = tuple(Level(REVEAL, noise) for noise in NOISES)
EVERYTHING = Level(1.0, 0.0)  # the attack at its best: a share far from 100 % would mean that it is broken


def cells(plan: Plan) -> list[Cell]:
    levels = [level for level in LEVELS if not plan.quick or level.noise in QUICK_NOISES]
    return deanonymise.cells(plan, levels, of_sample=(EVERYTHING,))


def findings(results: Results) -> Findings:
    datasets = results.datasets()
    caption = (
        f"Users re-identified from a release when {100 * REVEAL:g} % of each history is known and a growing "
        "share of all items is flipped in the attacker's copy. Bands are 95 % intervals over users; PopRec "
        "names what is popular in the summary."
    )
    drawn = deanonymise.figures(
        "deanonymise-noise", caption, "items flipped per user (%)", results, LEVELS, lambda level: level.noise
    )
    claims, tables = [], []
    for dataset in datasets:
        rows = results.rows.where(dataset=dataset)
        claims += [whatever_the_noise(dataset, rows), less_with_noise(dataset, rows)]
        tables.append(deanonymise.table(dataset, rows, (EVERYTHING, *LEVELS)))
    return Findings(claims, drawn, tables, deanonymise.NOTES)


def whatever_the_noise(dataset: str, rows: Rows) -> Claim:
    text = "Nobody is re-identified from a distilled release, even without noise"
    parts, worst = [], []
    for source in RELEASES[1:]:
        shares = [row for level in LEVELS if (row := found(rows, source, level)) is not None]
        if shares:
            worst.append(max(row.value for row in shares))
            parts.append(f"{name(source)} {shares[0].value:.2f} % without noise, at most {worst[-1]:.2f} %")
    if not parts:
        return claim(text, dataset, None, "nothing measured yet.")
    return claim(text, dataset, max(worst) <= NOBODY, "; ".join(parts) + ".")


def less_with_noise(dataset: str, rows: Rows) -> Claim:
    text = "From a sampled release, fewer users are re-identified the noisier the attacker's copy is"
    shares = [(level, found(rows, SAMPLED, level)) for level in LEVELS]
    there = [(level, row) for level, row in shares if row is not None]
    if len(there) < 2:
        return claim(text, dataset, None, "nothing measured yet.")
    falls = all(one.value >= other.value for (_, one), (_, other) in pairwise(there))
    lines = ", ".join(f"{row.value:.1f} % at {level.noise:g} %" for level, row in there)
    return claim(text, dataset, falls and there[0][1].value > there[-1][1].value, f"{lines}.")


EXPERIMENT = Experiment(
    name="deanonymise-noise",
    title="Who is re-identified by noisy knowledge?",
    source="appendix",
    about=f"Releases of {deanonymise.USERS} users, random ones or distilled, attacked with noisy copies.",
    cells=cells,
    findings=findings,
    datasets=("ml-1m", "magazine", "douban"),
)
