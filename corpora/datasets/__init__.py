"""Converters from the published files of benchmarks to `questions.jsonl` and `passages.jsonl`."""
