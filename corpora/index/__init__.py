"""Index folders: their manifest, their building and their opening."""
