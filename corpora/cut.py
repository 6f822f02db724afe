"""Split documents into passages of at most n words, at sentence ends; never used on benchmark paragraphs."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from corpora.sentences import document_sentences
from signatures.text import CJK, is_chinese

_LONGEST_WORD = 100  # characters; a longer run, such as a key or a sequence, counts as several words
_WORD = re.compile(rf"\S{{1,{_LONGEST_WORD}}}")
_CHINESE_WORD = re.compile(rf"[{CJK}][^\w\s]{{,100}}|[^\s{CJK}]{{1,{_LONGEST_WORD}}}")
_LONGEST = 4000  # characters of a paragraph that are split into sentences at a time
_END = re.compile(r"[.!?][\"'”’)]*\s+(?=[A-Z\"'“‘(])|[。！？]")
# A line without a full stop, such as a heading, is not the beginning of the sentence that follows.
_WIDE_END = re.compile(r"[\u3000-\u303f\uff00-\uffef][”’…]*$")


def cut_paragraphs(
    paragraphs: Iterable[str], words: int = 100, language: str = "en"
) -> Iterator[tuple[list[str], str]]:
    """Yield sentences and text of each passage of paragraphs in order; none if they are blank; no word is lost.

    Passages are filled sentence by sentence, across paragraph breaks, up to `words` words; only a longer sentence is
    split, between words. White space becomes single spaces. In Chinese sentences every character counts as a word,
    and no space follows them. A run of over 100 characters without spaces counts as a word per 100, and may be split
    there.

    Args:
        paragraphs: Of a document, or of a part of one.
        words: Maximum per passage, at least 1 (the papers use 100).
        language: Whose rules say where sentences end.
    """
    found = chain.from_iterable(pieces(paragraph, words, language) for paragraph in paragraphs)
    for sentences in _filled(found, words):
        yield sentences, join_pieces(sentences)


def split_paragraphs(text: str) -> list[str]:
    """Return the texts between blank lines."""
    return re.split(r"\n\s*\n|\r\n\s*\r\n", text)


def pieces(paragraph: str, words: int, language: str) -> Iterator[tuple[str, int]]:
    """Yield sentences, or parts of them, of at most `words` words, with their number of words."""
    for sentence in chain.from_iterable(_sentences(part, language) for part in _bounded(paragraph)):
        single, count = counted(sentence)
        if count > words:
            matches = list(_word(single).finditer(single))
            for start in range(0, count, words):
                part = matches[start : start + words]
                yield single[part[0].start() : part[-1].end()], len(part)
        elif count:
            yield single, count


def counted(text: str) -> tuple[str, int]:
    """Return a text with single spaces, and its number of words; every Chinese character is one."""
    parts = text.split()
    single = " ".join(parts)
    count = len(parts)
    pattern = _word(single)
    # Others than the longest have a character and a space, so that most texts cannot have a long one.
    long = len(single) >= _LONGEST_WORD + 2 * count and max(map(len, parts), default=0) > _LONGEST_WORD
    return single, sum(1 for _ in pattern.finditer(single)) if long or pattern is _CHINESE_WORD else count


def _word(text: str) -> re.Pattern[str]:
    return _CHINESE_WORD if not text.isascii() and is_chinese(text) else _WORD


def join_pieces(texts: Iterable[str]) -> str:
    """Return sentences as one text: a space follows each, but not a Chinese one."""
    first, *others = texts
    joined = [first]
    for text in others:
        joined += ("" if not joined[-1].isascii() and _WIDE_END.search(joined[-1]) else " ", text)
    return "".join(joined)


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


def _sentences(part: str, language: str) -> list[str]:
    if len(part) == _LONGEST and len(part.split()) == 1:  # no language, which pysbd takes seconds for
        return [part]
    return document_sentences(part, language)


def _filled(units: Iterator[tuple[str, int]], words: int) -> Iterator[list[str]]:
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
