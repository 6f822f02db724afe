"""Evaluation and compilation of programs over many questions."""
