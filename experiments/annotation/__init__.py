"""Judgements by LMs and by people, and key facts for questions."""
