"""Strategies for multi-hop question answering, one module per paper; those of our four papers stand here."""
