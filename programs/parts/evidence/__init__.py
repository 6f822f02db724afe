"""Evidence and answers of a loop in rounds: how they are weighed, judged and recorded."""
