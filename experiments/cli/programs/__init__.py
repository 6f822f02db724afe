"""`verihop programs`: list the programs, show one of them, and check one of the user's."""
