"""Metrics by the names that a user types: of the catalog, of an entailment oracle, and own ones (`module:name`)."""
