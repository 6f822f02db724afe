"""Steps that several strategies take: votes, documents written from memory, sub-questions one by one."""
