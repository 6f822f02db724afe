"""Many questions at a time: in threads, and in processes with threads each."""
