"""What better means: one definition, one function, per-question values."""
