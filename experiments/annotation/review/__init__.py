"""Human review of key facts (accept, edit, reject) and answers (rate), on a local page or in the terminal."""
