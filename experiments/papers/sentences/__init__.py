"""The choice of sentences: fit it, measure what it finds, and what an LM reads in it."""
