"""The files of a run: its configuration, its rows, and the contexts its questions were asked with."""
