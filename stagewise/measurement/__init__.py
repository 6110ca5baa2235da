"""The engine: every probe on every checkpoint, and the rows that come of it."""
