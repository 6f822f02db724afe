"""LMs that programs run on: connections, the embedded LM, the adapter, budgets."""
