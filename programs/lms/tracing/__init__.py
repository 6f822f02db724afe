"""Hearing LM calls: what was sent and what came back."""
