"""Experiments as commands: each file is one, and writes one small file under experiments/results."""
