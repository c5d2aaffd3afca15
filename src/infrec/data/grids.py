"""λ values to try for ∞-AE on few users: on a summary, or on a sample of real ones."""

from __future__ import annotations

SUMMARY = (1e-5, 1e-3, 0.1, 1.0, 5.0, 50.0)  # the paper's, inside Distill-CF
# The paper's values for logs and those for summaries, so that neither is favoured.
SAMPLE = (1e-5, 1e-3, 0.1, 1.0, 5.0, 20.0, 50.0, 100.0)
