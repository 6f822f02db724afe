"""Measurements of speed: LM calls, throughput, growth, retrieval."""
