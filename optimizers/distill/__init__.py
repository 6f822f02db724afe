"""Distillation: training examples from a teacher or from gold annotations, and the training of a smaller LM on them."""
