"""The papers' reduced dynamics: one file a derivation; numpy and scipy only."""
