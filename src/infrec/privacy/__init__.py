"""Numbers about leakage: what an attacker learns of real users from data that was passed on."""

from infrec.privacy.audit import Audit, audit
from infrec.privacy.matching import ECCENTRICITY, LENGTH, Matches, item_weights, match
from infrec.privacy.released import Released

__all__ = ["ECCENTRICITY", "LENGTH", "Audit", "Matches", "Released", "audit", "item_weights", "match"]
