"""Words of texts in any script, to compare what LMs write: same words, contained words, number of words.

Metrics compare by `normalize_answer`, which is the official definition; it deletes ASCII punctuation only and sees a
Chinese sentence as one word. Programs compare by these functions. A Han character or kana counts as a word, as in
`corpora`, because Chinese and Japanese are written without spaces.
"""

import functools
import re
import unicodedata

from signatures.text import CJK, normalize_answer

_WORD = re.compile(rf"[{CJK}]|[^\s{CJK}]+")
_APOSTROPHES = "'\u2018\u2019\uff07"
_IN_WORDS = re.compile(r"(?<=\w)[+#]+")  # C++ is not C
_KEPT = str.maketrans("+#", "\ue000\ue001")  # for characters that normalisation leaves alone
_BACK = str.maketrans("\ue000\ue001", "+#")
_POSSESSIVE = re.compile(rf"(?<=\w)[{_APOSTROPHES}]s\b", re.IGNORECASE)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


@functools.lru_cache(maxsize=512)  # the passages of a question are compared with every quote
def text_words(text: str) -> tuple[str, ...]:
    """Return the words of `text` in order: lower case, full-width forms as ASCII, no punctuation, no English articles.

    ASCII punctuation and apostrophes are deleted, as in `normalize_answer`, and so is a possessive "'s"; "+" and "#"
    behind a letter or digit stay ("C++", "C#"); all other punctuation separates words.
    """
    kept = _IN_WORDS.sub(lambda signs: signs[0].translate(_KEPT), _plain(text))
    return tuple(_WORD.findall(normalize_answer(kept).translate(_BACK)))


def count_words(text: str) -> int:
    """Return the number of words of `text`, English articles included."""
    return sum(any(map(str.isalnum, word)) for word in _WORD.findall(_plain(text)))


def _plain(text: str) -> str:
    separated = _NOT_ASCII.sub(lambda found: _separated(found[0]), _POSSESSIVE.sub("", text))
    return unicodedata.normalize("NFKC", separated)


@functools.lru_cache(maxsize=4096)
def _separated(character: str) -> str:
    if character in _APOSTROPHES:
        return "'"
    if character.isalnum():
        return character
    return " " if unicodedata.category(character)[0] in "PSZ" else character


def same_words(text: str) -> str:
    """Return a key that is equal for texts of the same words in the same order."""
    return " ".join(text_words(text))


def words_or_text(text: str) -> str:
    """Return the key of `same_words`, or the text itself if it has no words: texts without any are not alike."""
    return same_words(text) or text


_BRACKETS = re.compile(r"[(（][^()（）]*[)）]$")


def without_brackets(title: str) -> str:
    """Return a title without brackets at its end, which tell it from others of the name: "Get Low (song)"."""
    return _BRACKETS.sub("", title.rstrip()).rstrip()


def contains_words(text: str, part: str) -> bool:
    """Return whether the words of `part` stand in `text` one after the other; False if `part` has none."""
    wanted = same_words(part)
    return bool(wanted) and f" {wanted} " in f" {same_words(text)} "
