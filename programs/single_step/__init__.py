"""Strategies that retrieve once for a question, then read, check or choose."""
