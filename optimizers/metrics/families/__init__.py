"""The definitions of all metrics, one module per family; `optimizers.metrics.catalog` lists them by name."""
