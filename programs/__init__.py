"""One strategy, one paper, one file."""
