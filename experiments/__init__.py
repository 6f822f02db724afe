"""The command line, runs and their analysis, annotation, experiments of the papers, and the simulated world."""
