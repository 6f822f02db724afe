"""Judgements by LMs and by reviewers, and key facts for questions."""
