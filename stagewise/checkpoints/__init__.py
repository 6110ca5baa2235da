"""Where weights on disk come from and go to: run folders, series of checkpoints, their audit."""
