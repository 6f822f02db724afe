"""Defaults of a study: signs of life of running trials, pruning, grid. They stand apart since `--help` imports them."""

HEARTBEAT_SECONDS = 10
GRACE_SECONDS = 60  # without a sign of life, before a trial is taken for dead
PRUNE_BELOW = 0.1  # p of the test, Optuna's default
GRID_POINTS = 5  # per knob that is a number
