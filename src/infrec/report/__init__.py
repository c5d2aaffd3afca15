"""Only formats records: numbers for tables, figures, an HTML page. Nothing is computed here."""

from infrec.report.comparison import render
from infrec.report.records import Comparison, Example, Lead, ModelRecord, Reason, Recommended, Stratum

__all__ = ["Comparison", "Example", "Lead", "ModelRecord", "Reason", "Recommended", "Stratum", "render"]
