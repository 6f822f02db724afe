"""The embedded LM on a GPU, for tables that ask it a hundred thousand times."""
