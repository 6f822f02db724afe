"""Textual feedback on a prediction, from the question's gold, for optimizers that read it."""
