"""The emergence of sparse attention, arXiv:2505.17863: its figures."""
