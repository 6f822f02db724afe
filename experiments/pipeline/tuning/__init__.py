"""Studies over knobs, demonstrations and instructions: open, prepare, run, freeze."""
