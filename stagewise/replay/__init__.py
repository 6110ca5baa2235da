"""What the exact repetition of a run allows: finer checkpoints, and a branch with a head held, beside its controls."""
