"""Table in, findings out: stages, onsets, heads, power laws; numpy and scipy only."""
