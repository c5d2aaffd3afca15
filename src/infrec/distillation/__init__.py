"""Make users by gradient through ∞-AE: a log becomes a few synthetic users (Distill-CF, the paper's §4).

Importing it needs no JAX: settings and saved summaries do without.
"""

from infrec.checkpoints import Interrupted
from infrec.distillation.distill import distill
from infrec.distillation.finishing import finish
from infrec.distillation.settings import Config

__all__ = ["Config", "Interrupted", "distill", "finish"]
