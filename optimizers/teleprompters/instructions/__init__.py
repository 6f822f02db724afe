"""Optimizers that write instructions: a prompt LM proposes them, validation examples decide."""
