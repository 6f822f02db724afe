"""The training of a causal LM on examples: LoRA or full, on CPU or GPU, resumable."""
