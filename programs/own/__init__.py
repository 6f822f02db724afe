"""The contract of all programs, and what checks a program of the user's against it."""
