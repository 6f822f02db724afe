"""Prompts of the strategies in `programs/agents`."""
