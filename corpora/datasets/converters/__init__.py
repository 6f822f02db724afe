"""One module per benchmark or corpus format: from its official file to questions and passages."""
