"""Scan and Snap, arXiv:2305.16380: its figures, its model in (Y, Z), its model of WikiText."""
