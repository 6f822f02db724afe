"""Measurements of speed: LM calls, retrieval, growth, start-up, comparisons of runs, and what prompts share."""
