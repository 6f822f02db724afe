"""What a study found: tables, held-out estimates and plots."""
