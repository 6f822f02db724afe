"""Documents of a user (Markdown, text, HTML, PDF, DOCX) become passages."""
