"""Strategies that retrieve nothing: what the LM knows, or finds by its own search."""
