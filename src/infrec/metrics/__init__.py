"""Numbers from arrays: how good a ranking is, and what else it is."""

from infrec.metrics.accuracy import (
    HIT_RATE,
    LENGTHS,
    PROTOCOLS,
    Protocol,
    check_protocol,
    inverse_propensity,
    ndcg,
    propensity_scored_precision,
    propensity_scored_precision_as_published,
    ranking_metrics,
    recall,
    truncated_ndcg,
    truncated_recall,
)
from infrec.metrics.auc import Negatives, pooled_auc_by_user, user_auc
from infrec.metrics.catalogue import (
    co_occurrence_agreement,
    coverage,
    exposure,
    gini,
    novelty,
    popularity,
    popularity_distance,
)
from infrec.metrics.ranking import hit_rate_at, hits, top_k

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
    "inverse_propensity",
    "ndcg",
    "novelty",
    "pooled_auc_by_user",
    "popularity",
    "popularity_distance",
    "propensity_scored_precision",
    "propensity_scored_precision_as_published",
    "ranking_metrics",
    "recall",
    "top_k",
    "truncated_ndcg",
    "truncated_recall",
    "user_auc",
]
