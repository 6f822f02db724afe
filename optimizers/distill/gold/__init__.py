"""Training examples from gold annotations: what each predictor should reply, without a teacher."""
