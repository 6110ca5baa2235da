"""Text to token ids, n-gram models, and relations between the tokens of a sequence."""
