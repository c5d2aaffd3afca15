"""Smaller logs by a rule: the baselines that a distilled summary must beat."""

from infrec.samplers.sample import PLAIN, SAMPLERS, STRATEGIES, sample, sampler

__all__ = ["PLAIN", "SAMPLERS", "STRATEGIES", "sample", "sampler"]
