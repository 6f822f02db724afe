"""Fit cascades: weights and threshold, on training questions that both programs answered."""
