"""`infrec sample`: fewer users or interactions of the train part, chosen by a rule or made by a generator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from infrec.cli import console, options
from infrec.cli.options import Answer, option
from infrec.cli.reading import Reading, reads_data
from infrec.progress import Stopwatch
from infrec.report import numbers


@reads_data
def sample(
    data: options.Data,
    strategy: Annotated[
        str,
        option("--strategy NAME", "random-users, random-interactions, head-user, svp-cf, herding or ar-cf."),
    ],
    out: Annotated[Path, option("--out -o DIR", "Where to save the sample.")],
    percent: Annotated[
        float | None, option("--percent P", "How much of the interactions, in percent.")
    ] = None,
    users: Annotated[int | None, option("--users N", "How many users.")] = None,
    reading: Reading = Reading(),
    seed: options.Seed = 42,
) -> Answer:
    """Choose some users or interactions of the train part by a rule: what a summary must beat.

    Every item of the data is kept. [bold]infrec evaluate DATA --train-on DIR[/] fits models on it.

    [bold]Examples[/]

      infrec sample ml-1m --strategy random-users --users 500 --out random-500
      infrec sample ratings.csv --strategy svp-cf --percent 10 --out hardest
      infrec sample ml-1m --strategy ar-cf --users 500 --out virtual-500
    """
    from infrec import samplers

    known = (*samplers.PLAIN, *samplers.STRATEGIES)
    if strategy not in known:
        words = options.unknown("strategy", strategy, known)
        raise typer.BadParameter(words, param_hint="--strategy")
    if (percent is None) == (users is None):
        raise typer.BadParameter("give exactly one of --percent or --users.")
    console.check_out(out, "sample")
    from infrec.splits import holdout

    watch = Stopwatch()
    with console.bars() as progress:
        with watch("load"):
            log = reading.load(data, progress)
            train = holdout(log, seed=seed).train
        with watch("sample"):
            chosen = samplers.sample(
                train, strategy=strategy, percent=percent, users=users, seed=seed, progress=progress
            )
        replace(chosen, about={**chosen.about, "reading": reading.for_data(data).kept()}).save(out)
        console.saved(out)
    share = 100 * chosen.n_interactions / train.n_interactions
    document = {
        "dataset": data,
        "strategy": strategy,
        "users": chosen.n_users,
        "items": chosen.n_items,
        "interactions": chosen.n_interactions,
        "percent": share,
        "seed": seed,
        "out": str(out),
        "bytes": chosen.bytes,
        "seconds": {**watch.seconds, "total": console.elapsed()},
    }
    words = (
        f"[bold]{chosen.n_interactions:,}[/] interactions of [bold]{chosen.n_users:,}[/] users ({strategy}): "
        f"{share:.1f} % of the train part, saved in [bold]{console.plain(out)}[/] "
        f"({numbers.size(chosen.bytes)}).\n"
        + console.then(f"infrec evaluate {reading.again(data, seed)} --train-on {out}")
    )
    return document, words
