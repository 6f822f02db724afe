"""The names of the files of a record, for readers that need nothing else of it."""

BRANCHES, REPLIES = "branches.jsonl.gz", "replies.jsonl.gz"
