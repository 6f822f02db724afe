"""Weights of the embedded LM: base, adapters, merged folders, their conversion and export."""
