"""The only room that knows clocks, files of runs and terminals."""
