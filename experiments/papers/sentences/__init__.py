"""Fit the choice of sentences."""
