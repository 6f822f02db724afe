"""What is said to the LM, and the nouns that every other folder shares."""
