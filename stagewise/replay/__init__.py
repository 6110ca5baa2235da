"""Exact repetition of a run: finer checkpoints, and branches with a head held or a recipe changed, beside controls."""
