"""Strategies that retrieve nothing: what the LM knows, with or without writing it down first."""
