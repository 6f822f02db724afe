"""How a program gets better, and what better means."""
