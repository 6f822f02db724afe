"""The LM that is trained: its weights, the computation of its loss, its replies and its files."""
