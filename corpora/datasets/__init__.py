"""One converter per benchmark: official file or hub name in, the project's two JSONL formats out."""
