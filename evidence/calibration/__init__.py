"""How often planted onsets, boundaries, laws, events and faults are decided rightly: `make calibrate`."""
