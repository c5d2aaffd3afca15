"""Only formats records: documents, their renderers, numbers and figures. Nothing is computed here."""
