"""Rank passages for a query; every retriever implements the protocol of signatures.types."""
