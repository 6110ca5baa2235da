"""The answer table: runs and logs whose truth is known, what stagewise says first on each, and whether it is right."""
