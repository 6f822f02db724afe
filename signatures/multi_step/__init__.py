"""Prompts of the strategies in `programs/multi_step`."""
