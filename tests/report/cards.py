"""A small card, as whoever distilled would hand it over."""

from __future__ import annotations

from typing import Any

from infrec.evaluation.fidelity import Card, Curve, Fidelity, Size, Which


def fidelity(model: str, data: Which, hr: float, full: float) -> Fidelity:
    metrics = {"HR@10": hr, "HR@100": 2 * hr, "NDCG@10": hr + 1}
    share = {"HR@10": hr / full, "HR@100": hr / full, "NDCG@10": (hr + 1) / (full + 1)}
    return Fidelity(model, data, metrics, {"HR@10": (hr - 1, hr + 1)}, share, {"reg": 0.1})


def curve(data: Which, top: float) -> Curve:
    points = [(share / 100, top * share**-0.7) for share in (0.5, 1, 2, 5, 10, 20, 50, 100)]
    return Curve(data, points, {"largest": top, "median": top / 8, "smallest": top / 25})


def card(**changes: Any) -> Card:
    rows = tuple(
        "".join("f" if (r * 7 + c * c) % (c + 3) == 0 else "0" for c in range(60)) for r in range(30)
    )
    record: dict[str, Any] = {
        "dataset": "toy <b>log</b>",
        "items": 60,
        "mode": "discrete",
        "start": "popularity",
        "discrete": True,
        "seed": 7,
        "steps": 300,
        "best_step": 250,
        "full": Size(1000, 50_000, 400_000),
        "summary": Size(30, 900, 9_000),
        "random": Size(30, 1500, 12_000),
        "settings": {"hidden": 0.2, "tau": 3.0, "per user": 30},
        "seconds": {"distilling": 12.5, "measuring fidelity": 1.5},
        "fidelity": (
            fidelity("infinite-ae", "full", 30.0, 30.0),
            fidelity("infinite-ae", "summary", 27.0, 30.0),
            fidelity("infinite-ae", "random", 18.0, 30.0),
            fidelity("ease", "full", 28.0, 28.0),
            fidelity("ease", "summary", 21.0, 28.0),
            fidelity("ease", "random", 14.0, 28.0),
        ),
        "popularity": (curve("full", 40.0), curve("summary", 55.0), curve("random", 45.0)),
        "activity": (curve("full", 900.0), curve("summary", 400.0), curve("random", 600.0)),
        "likeness": 0.83,
        "picture": rows,
        "facts": {"device": "cpu", "command": "infrec distill toy --users 30"},
    }
    return Card(**{**record, **changes})
