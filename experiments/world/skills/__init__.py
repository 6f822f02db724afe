"""The skills of the simulated LM: recall, reading, decomposition, long answers, judging, verification."""
