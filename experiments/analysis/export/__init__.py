"""Runs in the form of other tools: MLflow and Inspect."""
