"""Campaigns against the commands: kills, faults of servers."""
