"""Strategies that retrieve step by step along a fixed procedure, which the program drives."""
