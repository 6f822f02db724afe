"""What runs show: means with intervals, paired comparisons, groups, traces and reports."""
