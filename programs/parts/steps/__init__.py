"""Steps that several strategies take: votes."""
