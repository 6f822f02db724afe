"""Prompts of the strategies in `programs/closed_book`."""
