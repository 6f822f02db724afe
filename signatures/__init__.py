"""Signatures (the prompts), and the data types that all other folders share."""
