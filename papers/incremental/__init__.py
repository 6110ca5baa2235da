"""Incremental Learning of Sparse Attention Patterns in Transformers, arXiv:2602.19143: its figures."""
