"""The outside world of text: passages, questions, benchmarks, retrievers."""
