"""Reports of runs: a self-contained HTML page, and plots."""
