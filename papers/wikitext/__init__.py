"""Small transformers on WikiText: how soon heads form where windows repeat themselves."""
