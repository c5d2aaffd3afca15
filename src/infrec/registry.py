"""The models by name: where each one's class stands, and how people see it. A new model has its line here."""

from __future__ import annotations

from typing import NamedTuple


class Model(NamedTuple):
    """A model's module and class; its name for people; its colour of the page's and its marker in figures."""

    module: str
    kind: str
    label: str
    colour: int
    marker: str


MODELS = {
    "infinite-ae": Model("infrec.models.infinite_ae", "InfiniteAE", "∞-AE", 0, "o"),
    "infinite-ae-plus": Model("infrec.models.infinite_ae_plus", "InfiniteAEPlus", "∞-AE-plus", 7, "*"),
    "ease": Model("infrec.models.ease", "EASE", "EASE", 1, "s"),
    "poprec": Model("infrec.models.popularity", "PopRec", "PopRec", 2, "D"),
    "bias-only": Model("infrec.models.bias", "BiasOnly", "Bias-only", 5, "v"),
    "mf": Model("infrec.models.mf", "MF", "MF", 3, "s"),
    "neumf": Model("infrec.models.neumf", "NeuMF", "NeuMF", 4, "^"),
    "lightgcn": Model("infrec.models.lightgcn", "LightGCN", "LightGCN", 6, "P"),
    "mvae": Model("infrec.models.mvae", "MVAE", "MVAE", 8, "X"),
}
