"""Only formats records: numbers for tables, figures, HTML pages. Nothing is computed here."""
