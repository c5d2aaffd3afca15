"""Smaller logs by a rule: the baselines that a distilled summary must beat."""

from infrec.samplers.sample import REG_GRID, STRATEGIES, sample

__all__ = ["REG_GRID", "STRATEGIES", "sample"]
