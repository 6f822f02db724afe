"""What the HTTP service adds to the time of an answer, with many clients at once."""
