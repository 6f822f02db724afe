"""Measure the multi-hop retriever, and fit the reranker to it."""
