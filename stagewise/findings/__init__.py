"""Table in, data out: stages, onsets, heads, lineage, replicates, comparison."""
