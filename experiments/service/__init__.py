"""The HTTP service: answers, retrieval, the page, and their limits."""
