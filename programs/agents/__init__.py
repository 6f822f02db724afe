"""Strategies in which the LM drives: it chooses each search, and when to stop."""
