"""Numbers from arrays: how good a ranking is, and what else it is."""

from infrec.metrics.auc import Negatives, pooled_auc_by_user, user_auc
from infrec.metrics.catalogue import (
    co_occurrence_agreement,
    coverage,
    exposure,
    gini,
    intra_list_distance,
    novelty,
    popularity,
    popularity_distance,
    unit_columns,
)
from infrec.metrics.ranking import (
    HIT_RATE,
    LENGTHS,
    PROTOCOLS,
    Protocol,
    check_protocol,
    hit_rate_at,
    hits,
    inverse_propensity,
    ranking_metrics,
    top_k,
    truncated_recall,
)

__all__ = [
    "HIT_RATE",
    "LENGTHS",
    "PROTOCOLS",
    "Negatives",
    "Protocol",
    "check_protocol",
    "co_occurrence_agreement",
    "coverage",
    "exposure",
    "gini",
    "hit_rate_at",
    "hits",
    "intra_list_distance",
    "inverse_propensity",
    "novelty",
    "pooled_auc_by_user",
    "popularity",
    "popularity_distance",
    "ranking_metrics",
    "top_k",
    "truncated_recall",
    "unit_columns",
    "user_auc",
]
