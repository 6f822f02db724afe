"""Score answers that were given before: rows of finished runs, and predictions of other systems."""
