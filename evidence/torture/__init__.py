"""Kills, refused writes, races and flipped bits, at random moments and places: `make torture`."""
