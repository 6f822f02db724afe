"""Measurements of speed, recall and agreement as commands; speed is measured as ratios within one run."""
