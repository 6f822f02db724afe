"""Rank passages for a query; every retriever speaks the protocol of signatures.types."""
