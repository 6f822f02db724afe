"""What several strategies need."""
