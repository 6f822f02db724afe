"""A generated fictional corpus and a simulated LM with dials."""
