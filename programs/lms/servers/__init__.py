"""LMs on OpenAI-compatible servers."""
