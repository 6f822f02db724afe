"""Signs of life of running trials, by which those of killed processes are noticed."""

HEARTBEAT_SECONDS = 10
GRACE_SECONDS = 60  # without a sign of life, before a trial is taken for dead
