"""Analysis of runs: means with intervals, paired comparisons, groups, traces and reports."""
