"""Metrics: each has one definition and one function, which scores one question."""
