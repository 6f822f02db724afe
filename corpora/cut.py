"""Split documents into passages of at most n words, at sentence ends; never used on benchmark paragraphs."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from signatures.common.errors import UserError
from signatures.text import CJK, is_chinese, split_sentences

_WORD = re.compile(r"\S{1,100}")  # a run of more characters, such as a key or a sequence, counts as several words
_CHINESE_WORD = re.compile(rf"[{CJK}][^\w\s]{{,100}}|[^\s{CJK}]{{1,100}}")
_LONGEST = 4000  # characters of a paragraph that are split into sentences at a time
_END = re.compile(r"[.!?][\"'”’)]*\s+(?=[A-Z\"'“‘(])|[。！？]")
# What a sentence may end with: most cells of tables and items of lists have nothing of it, and the splitter is slow.
_MAY_END = re.compile(r"""[.!?。．！？)\n\r]|-["'“”]""")
_WIDE_END = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef][”’…]*$")


def cut_text(text: str, words: int = 100) -> Iterator[tuple[list[str], str]]:
    """Yield sentences and text of each passage of a text in order; none if it is blank; no word is lost.

    Passages are filled sentence by sentence, across paragraph breaks, up to `words` words; only a longer sentence is
    split, between words. White space becomes single spaces. In Chinese sentences every character counts as a word,
    and no space follows them. What is no language counts as a word per 100 characters, and may be split there.

    Args:
        text: A document, or a part of one.
        words: Maximum per passage, at least 1 (the papers use 100).

    Raises:
        UserError: `words` is below 1.
    """
    if words < 1:
        raise UserError(f"A passage needs at least 1 word, got {words}.")
    for sentences in _fill(_units(text, words), words):
        yield sentences, _joined(sentences)


def split_paragraphs(text: str) -> list[str]:
    """Return what stands between blank lines."""
    return re.split(r"\n\s*\n|\r\n\s*\r\n", text)


def _units(text: str, words: int) -> Iterator[tuple[str, int]]:
    """Yield sentences, or parts of them, of at most `words` words, with their number of words."""
    for paragraph in split_paragraphs(text):
        for sentence in chain.from_iterable(map(_sentences, _bounded(paragraph))):
            single = " ".join(sentence.split())
            pattern = _CHINESE_WORD if is_chinese(single) else _WORD
            matches = list(pattern.finditer(single))
            for start in range(0, len(matches), words):
                part = matches[start : start + words]
                yield single[part[0].start() : part[-1].end()], len(part)


def _joined(sentences: list[str]) -> str:
    text = sentences[0]
    for sentence in sentences[1:]:
        text += ("" if _WIDE_END.search(text) else " ") + sentence
    return text


def _bounded(paragraph: str) -> Iterator[str]:
    """Yield parts of a paragraph that the splitter can bear: its time grows with the square of their length."""
    start = 0
    while len(paragraph) - start > _LONGEST:
        ends = [match.end() for match in _END.finditer(paragraph, start, start + _LONGEST)]
        cut = ends[-1] if ends else _last_blank(paragraph, start + 1, start + _LONGEST)
        yield paragraph[start:cut]
        start = cut
    yield paragraph[start:]


def _last_blank(text: str, start: int, end: int) -> int:
    """Return where the last white space of a part of a text is; its end if there is none, which cuts a word."""
    return next((place for place in range(end - 1, start - 1, -1) if text[place].isspace()), end)


def _sentences(paragraph: str) -> list[str]:
    """Split into sentences; if the splitter would lose a character, keep the paragraph in one piece."""
    if len(paragraph) == _LONGEST and len(paragraph.split()) == 1:  # no language, which the splitter takes seconds for
        return [paragraph]
    if not _MAY_END.search(paragraph):
        return [paragraph.strip()]
    sentences = split_sentences(paragraph)
    if len(sentences) == 1:
        return sentences
    # The order of characters does not count, because citation marks move in front of the full stop.
    kept = Counter("".join("".join(sentences).split()))
    return sentences if kept == Counter("".join(paragraph.split())) else [paragraph]


def _fill(units: Iterator[tuple[str, int]], words: int) -> Iterator[list[str]]:
    """Gather sentences into passages of at most `words` words."""
    passage: list[str] = []
    size = 0
    for unit, length in units:
        if passage and size + length > words:
            yield passage
            passage, size = [], 0
        passage.append(unit)
        size += length
    if passage:
        yield passage
