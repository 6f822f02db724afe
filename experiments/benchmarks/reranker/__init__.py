"""Fit our own reranker: `python -m experiments.benchmarks.reranker --data ../shared/data`."""
