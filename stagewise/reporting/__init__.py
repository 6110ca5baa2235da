"""The report: one HTML page from a folder's tables."""
