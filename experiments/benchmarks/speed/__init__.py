"""Measures speed: LM calls, throughput, growth, and what prompts share."""
