"""Every program of the catalog on the same questions: the simulated world, and real ones with the embedded LM."""
