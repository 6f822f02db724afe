"""Pure functions on text: answer normalisation, sentence splitting (English and Chinese), citation marks."""

import functools
import re
import string
from collections.abc import Callable

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = re.compile(r"\[(\d{1,9}(?:\s*,\s*\d{1,9})*)\]")  # int() rejects numbers of thousands of digits
# Marks after a full stop belong to the sentence before it, so they are moved in front of the stop.
_MARKS_AFTER_STOP = re.compile(r"([.!?])\s*((?:\[\d+(?:\s*,\s*\d+)*\]\s*)+)")

# For a character class of a regular expression: Han characters and kana, which are written without spaces.
CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_CHINESE_SHARE = 0.2  # of the letters: an English sentence with a Chinese name stays below it
_CLOSING = "”’」』）】)\"'"
_CHINESE_MARKS_AFTER_STOP = re.compile(rf"([。！？!?.][{_CLOSING}]*)\s*((?:\[\d+(?:\s*,\s*\d+)*\]\s*)+)")
# A stop inside a title (《...？》) does not end a sentence.
_CHINESE_SENTENCE = re.compile(rf".+?(?:[。！？!?]+[{_CLOSING}]*(?!》)|\.(?=\s)|\n|$)", re.DOTALL)


def normalize_answer(text: str) -> str:
    """Return `text` normalised as by SQuAD and HotpotQA: lower case, no ASCII punctuation, no articles, single spaces.

    The order of the steps matters and is the official one (HotpotQA, `hotpot_evaluate_v1.py`).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DELETE_PUNCTUATION)).split())


def is_chinese(text: str) -> bool:
    """Return whether at least a fifth of the letters of `text` are Han characters or kana."""
    characters = len(_CJK_CHARACTER.findall(text))
    return characters > 0 and characters >= _CHINESE_SHARE * sum(map(str.isalpha, text))


@functools.cache
def _segmenter():  # type: ignore[no-untyped-def]
    import pysbd  # imported late, because it takes 0.1 seconds

    return pysbd.Segmenter(language="en", clean=False)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, stripped, none empty; citation marks stay with the sentence they follow.

    Chinese text (`is_chinese`) is split at 。！？ and line ends, all other text by pysbd's rules for English.
    """
    return list(_sentences(text))


@functools.lru_cache(maxsize=256)  # several metrics split the same response, at 0.5 ms a sentence
def _sentences(text: str) -> tuple[str, ...]:
    if is_chinese(text):
        moved = _CHINESE_MARKS_AFTER_STOP.sub(lambda match: f"{match[2].strip()}{match[1]}", text)
        found = _CHINESE_SENTENCE.findall(moved)
    else:
        moved = _MARKS_AFTER_STOP.sub(lambda match: f" {match[2].strip()}{match[1]} ", text)
        found = _segmenter().segment(moved)
    return tuple(sentence.strip() for sentence in found if sentence.strip())


def citation_numbers(text: str) -> list[int]:
    """Return the numbers of all `[n]` and `[n, m]` marks in order of first appearance, without repeats."""
    numbers = [int(number) for match in _MARKS.finditer(text) for number in match[1].split(",")]
    return list(dict.fromkeys(numbers))


def strip_citations(text: str) -> str:
    """Return `text` without its `[n]` marks and the spaces that they leave before punctuation."""
    return re.sub(r"\s+([.,;:!?])", r"\1", re.sub(r"\s{2,}", " ", _MARKS.sub("", text))).strip()


def renumber_citations(text: str, number_of: Callable[[int], int]) -> str:
    """Return `text` with every number n in its marks replaced by `number_of(n)`."""
    return _MARKS.sub(lambda mark: re.sub(r"\d+", lambda digits: str(number_of(int(digits[0]))), mark[0]), text)
