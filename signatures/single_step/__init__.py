"""Prompts of the strategies in `programs/single_step`."""
