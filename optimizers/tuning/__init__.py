"""One Optuna study over knobs, demonstration sets and instructions."""
