"""Evaluate settings of numeric knobs from a recorded run, through the gates of the program."""
