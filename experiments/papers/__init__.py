"""Experiments of the papers, as commands that write their results to experiments/results."""
