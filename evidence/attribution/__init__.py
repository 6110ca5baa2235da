"""Which samples made a head, scored against exact replays of the training: see `__main__`."""
