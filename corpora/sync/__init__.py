"""A folder of documents and its index, kept the same."""
