"""What the simulated LM can do: remember, read, take steps, judge."""
