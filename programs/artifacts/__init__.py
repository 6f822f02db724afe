"""Programs frozen into folders: write, check, load, compare and export them."""
