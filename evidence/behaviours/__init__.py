"""Behaviours whose heads and order are known: planted circuits, and whether they are told rightly."""
