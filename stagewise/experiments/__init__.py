"""The papers' experiments, one a file: recipes, what to measure, and one call that runs it all."""
