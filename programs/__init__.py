"""Strategies for multi-hop question answering, one module per paper."""
