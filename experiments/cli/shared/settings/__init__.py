"""Defaults that the user sets once: in `verihop.toml`, and in environment variables."""
