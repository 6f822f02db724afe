"""The command `verihop tune`: its options, and what it prints."""
