"""Smaller logs by a rule: the baselines that a distilled summary must beat."""

from infrec.samplers.sample import GENERATORS, REG_GRID, STRATEGIES, sample

__all__ = ["GENERATORS", "REG_GRID", "STRATEGIES", "sample"]
