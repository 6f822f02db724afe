"""Passages, questions, benchmarks, indexes and retrievers."""
