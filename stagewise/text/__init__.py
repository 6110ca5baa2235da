"""From words to token ids, and what tokens say of one another."""
