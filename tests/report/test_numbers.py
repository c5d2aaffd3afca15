"""Numbers as people read them."""

from __future__ import annotations

import pytest

from infrec.report import numbers


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("HR@10", 31.906, "31.91"),
        ("AUC", 0.94568, "0.9457"),
        ("users", 12345.0, "12,345"),
        ("share", 0.94, "94 %"),
        ("share", 0.032, "3.2 %"),
        ("share", 0.0004, "0.04 %"),
        ("HR@10", float("nan"), "–"),
        ("HR@10", None, "–"),
    ],
)
def test_number(metric: str, value: float | None, text: str) -> None:
    assert numbers.number(metric, value) == text


def test_interval_is_short_and_empty_when_unknown() -> None:
    assert numbers.interval("HR@10", (30.96, 32.84)) == "31.0–32.8"
    assert numbers.interval("AUC", (0.94, 0.951)) == "0.940–0.951"
    assert numbers.interval("share", (0.03, 0.5)) == "3.0 % – 50 %"
    assert numbers.interval("HR@10", None) == ""
    assert numbers.interval("HR@10", (float("nan"), 1.0)) == ""


@pytest.mark.parametrize(("value", "text"), [(0.4, "0.40 s"), (12.3, "12 s"), (185.0, "3 min 5 s")])
def test_seconds(value: float, text: str) -> None:
    assert numbers.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(820, "820 bytes"), (3_400_000, "3.4 MB"), (15_200_000_000, "15.2 GB"), (5e12, "5000.0 GB")],
)
def test_size(value: float, text: str) -> None:
    assert numbers.size(value) == text


def test_shown_keeps_the_order_people_expect() -> None:
    assert numbers.shown({"AUC": 1, "HR@10": 1, "other": 1}, extra=("other",)) == ["HR@10", "AUC", "other"]
