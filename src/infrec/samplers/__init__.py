"""Smaller logs by a rule: the baselines that a distilled summary must beat."""

from infrec.samplers.sample import GENERATORS, STRATEGIES, sample

__all__ = ["GENERATORS", "STRATEGIES", "sample"]
