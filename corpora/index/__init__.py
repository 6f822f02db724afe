"""Build and open index folders."""
