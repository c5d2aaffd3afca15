"""Dislikes: a model that learns from them, against leaving them out and counting them as interactions.

    python benchmarks/dislikes.py [--data ml-1m] [--model infinite-ae --model ease]

Likes are ratings of 4 and 5, dislikes of 1 and 2; the split is the data's own, and what is held out of both
is test. In no list is anything that its user is known to dislike, whatever the model. Ways of fitting on the
train part:

    learnt      dislikes beside the likes, their weight chosen on validation
    left out    likes alone (the weight 0)
    counted     dislikes as interactions like any other

λ of `left out` is chosen on validation and used by all. `disliked@10` is how many items among the first 10
the user dislikes, as was held out; differences to `learnt` are paired, with 95 % intervals over users.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from infrec import evaluate, holdout
from infrec.data import Interactions, datasets
from infrec.evaluation import compare
from infrec.models import create

METRICS = ("HR@10", "NDCG@10", "HR@100", "NDCG@100", "disliked@10", "disliked@100")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="ml-1m", help="a dataset's name or file, with ratings")
    parser.add_argument("--model", action="append", help="infinite-ae or ease; both unless given")
    given = parser.parse_args()
    log = datasets.load(given.data, positive="rating >= 4", negative="rating <= 2")
    split = holdout(log)
    print(log)
    for name in given.model or ["infinite-ae", "ease"]:
        learnt: Any = create(name).fit(split.train, validation=split.val)
        print(f"{name}: {learnt.selected}")
        for one in learnt.about["dislikes"]:
            print("  weight {weight:g}: likes {likes:.2f}, dislikes {dislikes:.2f}".format_map(one))
        counted = create(name, reg=learnt.selected["reg"]).fit(with_dislikes_as_likes(split.train))
        results = {}
        for way, model in (
            ("learnt", learnt),
            ("left out", learnt.with_dislikes(0.0)),
            ("counted", counted),
        ):
            results[way] = evaluate(model, split)
            show(way, {metric: results[way].metrics[metric] for metric in METRICS})
        for way in ("left out", "counted"):
            for metric, one in compare(results["learnt"], results[way]).items():
                if metric in METRICS:
                    print(f"  learnt − {way}: {metric} {one.value:+.3f} ({one.low:+.3f} to {one.high:+.3f})")


def with_dislikes_as_likes(log: Interactions) -> Interactions:
    """A log whose dislikes are interactions like any other.

    Args:
        log: The log, with dislikes.
    """
    assert log.dislikes is not None
    return replace(log.with_matrix(log.matrix + log.dislikes.matrix))


def show(way: str, values: dict[str, float]) -> None:
    """One line of figures."""
    print(f"  {way:<10}" + "  ".join(f"{name} {value:.3f}" for name, value in values.items()), flush=True)


if __name__ == "__main__":
    main()
