"""What the reply of an LM has besides the fields of a signature."""
