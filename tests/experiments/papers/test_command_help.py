"""The help of the commands of papers: paragraphs fit the terminal, and commands stay as they are written."""

from experiments.papers.command import help_of


def test_paragraphs_are_one_line_each_and_indented_ones_keep_theirs():
    text = help_of("What it is.\n\n    python -m a \\\n        --b c\n\nOne sentence over\ntwo lines.\n")
    assert text == "What it is.\n\n\b\n    python -m a \\\n        --b c\n\nOne sentence over two lines."
    assert help_of(None) == ""
