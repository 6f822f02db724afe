"""Pure functions on text: answer normalisation, sentence splitting (English and Chinese)."""

import bisect
import functools
import itertools
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

from signatures.citation_marks import find_marks

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

# For a character class of a regular expression: Han characters and kana, which are written without spaces.
CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_CHINESE_SHARE = 0.2  # of the letters: an English sentence with a Chinese name stays below it
_CLOSING = "”’」』）】)\"'"
_CLOSING_FIRST = re.compile(rf"[{_CLOSING}»\]}}]+(?:\s+|$)")  # pysbd begins the next sentence with a bracket
_SINGLE_QUOTES = re.compile(r"(?<!\w)‘|(?<=[.!?])’(?=\s|$)")  # pysbd knows their ASCII form only
_BLANKS = " \t\u00a0\u3000"
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
def _segmenter(language: str):  # type: ignore[no-untyped-def]
    import pysbd  # imported late, because it takes 0.1 seconds
    from pysbd.languages import LANGUAGE_CODES

    return pysbd.Segmenter(language=language if language in LANGUAGE_CODES else "en", clean=False)


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Return the sentences of `text`, stripped, none empty; together they are the text up to white space.

    The text is split as it reads without its citation marks, so a mark neither ends a sentence ("et al. [3] showed")
    nor hides its end. A mark behind the stop belongs to the sentence before it, a mark at the start of a line to what
    follows on that line. Chinese text (`is_chinese`) is split at 。！？ and line ends, all other text by pysbd's rules
    for a language (ISO 639-1); those of English where it has none.
    """
    return list(_sentences(text, language))


@dataclass(frozen=True)
class _Run:
    """Adjacent marks that were taken out of a text: where they stood in it, and where that is in the text without them.

    Args:
        place: Offset in the text without marks.
        end: Offset behind the last mark in the text itself.
        opens_line: Whether they stand at the start of a line that goes on.
    """

    place: int
    end: int
    opens_line: bool


def _without_marks(text: str) -> tuple[str, list[int], list[_Run]]:
    """Return a text without its marks and the blanks before them, the offsets of its characters, and the runs."""
    plain: list[str] = []
    offsets: list[int] = []
    runs: list[_Run] = []
    done = 0
    for start, end in _runs(text):
        plain += text[done:start]
        offsets += range(done, start)
        after = text[end : end + 1]
        runs.append(_Run(len(plain), end, text[start - 1 : start] in ("", "\n") and after not in ("", "\n")))
        if after.isalnum() and not _CJK_CHARACTER.match(after):  # the words on both sides stay two
            plain.append(" ")
            offsets.append(end)
        done = end
    return "".join([*plain, text[done:]]), [*offsets, *range(done, len(text))], runs


def _runs(text: str) -> list[tuple[int, int]]:
    """Return the offsets of each run of marks with nothing but blanks between them, and before them."""
    runs: list[tuple[int, int]] = []
    for mark in find_marks(text):
        start = _end_of_words(text, mark.start, _BLANKS)
        if runs and start == runs[-1][1]:
            start, _ = runs.pop()
        runs.append((start, mark.end))
    return runs


def _end_of_words(text: str, end: int, blanks: str = string.whitespace) -> int:
    """Return the offset behind the last character before `end` that is no blank."""
    while end and text[end - 1] in blanks:
        end -= 1
    return end


@functools.lru_cache(maxsize=256)  # several metrics split the same response, at 0.5 ms a sentence
def _sentences(text: str, language: str = "en") -> tuple[str, ...]:
    plain, offsets, runs = _without_marks(text)
    places = [run.place for run in runs]
    cuts = [0]
    for start in list(_starts(plain, language))[1:]:
        end = _end_of_words(plain, start)
        here = runs[bisect.bisect_left(places, end) : bisect.bisect_right(places, start)]
        behind = itertools.takewhile(lambda run: not run.opens_line, here)
        cuts.append(max([offsets[end - 1] + 1, *(run.end for run in behind)]))
    found = (text[start:end].strip() for start, end in itertools.pairwise([*cuts, len(text)]))
    return tuple(sentence for sentence in found if sentence)


def _starts(plain: str, language: str) -> Iterator[int]:
    """Yield the offset of each sentence of a text without marks."""
    if not plain.strip():
        return
    if is_chinese(plain):
        found = _CHINESE_SENTENCE.findall(plain)
    else:
        plain = _SINGLE_QUOTES.sub("'", plain)
        # Not `segment`: it stores the text on the object that threads share, and is quadratic in repeated sentences.
        found = _segmenter(language).processor(plain).process()
    position = 0
    for sentence in found:
        words = sentence.strip()
        start = plain.find(words, position) if words else -1
        if start < 0:  # the splitter changed the text; what it changed stays with the sentence before
            continue
        position = start + len(words)
        closing = _CLOSING_FIRST.match(plain, start)
        start = closing.end() if closing else start
        if start < position:
            yield start
