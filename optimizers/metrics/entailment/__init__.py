"""Entailment oracles behind one interface, each with its measured agreement with human judgements."""
