"""Ratios of two ways timed in turn, and peaks of memory: `make bench`."""
