"""Joining the shards, or other parts, of a run into one run."""
