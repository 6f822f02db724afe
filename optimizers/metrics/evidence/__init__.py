"""Metrics of evidence: the passages read against the key facts and the response, and supporting facts."""
