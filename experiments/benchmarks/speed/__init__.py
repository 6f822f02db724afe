"""Measures speed: how long the commands of verihop take, and how that grows."""
