"""Smaller logs by a rule: the baselines that a distilled summary must beat."""

from infrec.samplers.sample import SAMPLERS, STRATEGIES, sample, sampler

__all__ = ["SAMPLERS", "STRATEGIES", "sample", "sampler"]
