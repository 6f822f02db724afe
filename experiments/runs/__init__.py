"""The files of a run: configuration, rows, and fixed contexts."""
