"""Optimizers of prompts and demonstrations behind one function."""
