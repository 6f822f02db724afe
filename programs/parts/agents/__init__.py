"""What agents share: the transcript that each turn shows to the LM, and how the answer is read at the end."""
