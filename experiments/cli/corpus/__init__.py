"""Commands on documents, passages and indexes."""
