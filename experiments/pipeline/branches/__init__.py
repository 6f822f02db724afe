"""Recording the branches of a run, and opening the record again."""
