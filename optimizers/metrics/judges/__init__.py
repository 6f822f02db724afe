"""LM judges: of single answers, of several answers to one question, of revised questions."""
