"""Strategies that retrieve nothing: what the LM knows, or finds by a search of its own."""
