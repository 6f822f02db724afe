"""Synthesis of training examples: ask a teacher many questions, keep what it did, write the folder of examples."""
