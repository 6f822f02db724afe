"""Train and measure an entailment head on the MiniLM encoder: `python -m experiments.benchmarks.entailment_head`."""
