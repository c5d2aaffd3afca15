"""A small comparison, as whoever measured would hand it over."""

from __future__ import annotations

from infrec.evaluation.comparison import Comparison, Example, ModelRecord, Reason, Recommended, Stratum


def model(name: str, hr: float, popularity: list[float]) -> ModelRecord:
    metrics = {
        "HR@10": hr,
        "HR@100": 2 * hr,
        "NDCG@10": hr,
        "NDCG@100": 1.5 * hr,
        "AUC": 0.9,
        "coverage@10": 40.0,
    }
    strata = [
        Stratum(label, 50, {"HR@10": hr + shift}, {"HR@10": (hr + shift - 2, hr + shift + 2)})
        for label, shift in (("1–4 items", -5.0), ("5–9 items", 5.0))
    ]
    return ModelRecord(
        name,
        metrics,
        {"HR@10": (hr - 1, hr + 1)},
        selected={"reg": 5.0},
        seconds={"fit": 0.25},
        strata=strata,
        popularity=popularity,
    )


def comparison(second: float = 20.0) -> Comparison:
    because = (Reason("Nine <b>Lanterns</b>", 0.31), Reason("Salt & Iron", -0.05))
    return Comparison(
        dataset="toy",
        protocol="paper-code",
        split="holdout",
        users=100,
        items=30,
        interactions=900,
        models=(model("infinite-ae", 30.0, [0.5, 0.5]), model("ease", second, [0.9, 0.1])),
        popularity_groups=(("most popular", 4), ("long tail", 26)),
        example=Example(
            "u<1>",
            "infinite-ae",
            ("Nine <b>Lanterns</b>", "Salt & Iron"),
            (Recommended(1, "A Quiet Orchard", 0.83, because, (Reason("u7", 0.2),), held_out=True),),
        ),
        facts={"device": "cpu"},
    )
