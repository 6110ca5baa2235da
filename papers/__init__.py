"""The papers that stagewise is the reference implementation of: experiments, theory, published numbers, verdicts."""
