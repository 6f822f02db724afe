"""Speed, measured as ratios inside one run."""
