"""How an LM is called: budget, counting, retries, time limits."""
