"""Train the adapter of the multi-hop retriever, and measure it."""
