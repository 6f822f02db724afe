"""Commands on the folders of runs: merge, score, compare."""
