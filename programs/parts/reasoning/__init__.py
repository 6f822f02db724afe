"""Thoughts that grow, and what they say."""
