"""Runs the command: `python -m experiments.papers.gpu`."""

# Not in this module: other processes import what they run by its name, which this one loses when it is run.
from experiments.papers.command import run_command
from experiments.papers.gpu.command import app

if __name__ == "__main__":
    run_command(app, "gpu")
