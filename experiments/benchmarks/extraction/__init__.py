"""How much of the text of manuals extractors get out of PDF, HTML and Word files."""
