"""People's judgements: key facts accepted, edited or rejected, answers rated; a local page and a terminal mode."""
