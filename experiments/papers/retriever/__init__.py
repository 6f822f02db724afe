"""Train the adapter of the multi-hop retriever: its data, the training, and its place in the package."""
