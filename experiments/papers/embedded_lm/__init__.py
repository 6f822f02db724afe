"""The data, the student and the prompts of the embedded LM."""
