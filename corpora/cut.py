"""Cut documents into passages of about n words, sentences whole where possible. Never used on benchmark paragraphs."""

import re
from collections import Counter
from collections.abc import Iterator

from corpora.paragraphs import passage_id
from corpora.passages import PassageRecord
from signatures.errors import UserError
from signatures.text import split_sentences


def cut_document(title: str, text: str, words: int = 100) -> list[PassageRecord]:
    """Return the document's passages in order, each with its sentences; all words are kept.

    Passages are filled sentence by sentence, across paragraph breaks, and never hold more than `words` words; only a
    sentence longer than that is split, between words. White space becomes single blanks.

    Args:
        title: Title of the document, given to every passage.
        text: The document without its title.
        words: Most words per passage, at least 1 (the papers use 100).

    Raises:
        UserError: `words` is below 1, or the text is empty.
    """
    if words < 1:
        raise UserError(f"A passage needs at least 1 word, got {words}.")
    passages: list[PassageRecord] = []
    seen: Counter[str] = Counter()
    for sentences in _fill(_units(text, words), words):
        joined = " ".join(sentences)
        name = passage_id(title, joined)
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"  # a document may repeat itself word by word
        passages.append(PassageRecord(id=unique, title=title, text=joined, sentences=sentences))
    if not passages:
        raise UserError(f"The document {title!r} has no text. Leave it out or give it some.")
    return passages


def _units(text: str, words: int) -> Iterator[list[str]]:
    """Yield sentences as lists of at most `words` words."""
    for paragraph in re.split(r"\n\s*\n|\r\n\s*\r\n", text):
        for sentence in _sentences(paragraph):
            tokens = sentence.split()
            for start in range(0, len(tokens), words):
                yield tokens[start : start + words]


def _sentences(paragraph: str) -> list[str]:
    """Split into sentences; where the splitter would lose a character, keep the paragraph in one piece."""
    sentences = split_sentences(paragraph)
    # Characters are compared as a bag, because citation marks move in front of the full stop.
    kept = Counter("".join("".join(sentences).split()))
    return sentences if kept == Counter("".join(paragraph.split())) else [paragraph]


def _fill(units: Iterator[list[str]], words: int) -> Iterator[list[str]]:
    """Gather sentences into passages of at most `words` words."""
    passage: list[str] = []
    size = 0
    for tokens in units:
        if passage and size + len(tokens) > words:
            yield passage
            passage, size = [], 0
        passage.append(" ".join(tokens))
        size += len(tokens)
    if passage:
        yield passage
