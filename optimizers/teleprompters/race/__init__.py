"""Which optimizer? All that fit race under one budget, and a paired test decides."""
