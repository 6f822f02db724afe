"""Optimizers that compile programs, and metrics that score answers."""
