"""The smallest settings with which each optimizer still does everything that it does."""

SMALLEST = {
    "copro": {"breadth": 2, "depth": 2},
    "mipro": {"num_candidates": 2, "num_trials": 2},
    "simba": {"bsize": 3, "num_candidates": 2, "max_steps": 1},
    "gepa": {"max_metric_calls": 20},
    "infer_rules": {"num_candidates": 1},
    "race": {"arms": "bootstrap", "rungs": 1},
}
