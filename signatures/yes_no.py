"""The one reader of yes and no, in English and Chinese: an exact word, the word that a text begins with, or the first.

A word is a run of letters and digits; what stands around it ("**Yes**", "(No)", "- Yes", "是的。") is no part of it.
Full-width letters are read as ASCII.
Words joined by a hyphen, a slash, a bar or an underscore are one word, so "no-one" and "yes/no" are neither yes nor no.
Chinese is written without spaces: there a word is what stands between two marks, so "是的，他来了" begins with 是的,
and "不是北京" begins with no verdict.
"""

import re
import unicodedata

# The words that metrics search for anywhere in a text; "true" and "false" occur in sentences that mean the opposite.
_SAYS_YES = frozenset({"yes", "是", "是的", "对", "对的"})
_SAYS_NO = frozenset({"no", "否", "不", "不是", "不是的", "不对"})
YES = _SAYS_YES | {"true"}
NO = _SAYS_NO | {"false"}

_SPACE_OF_TOKENIZERS = "Ġ"  # a letter to Python; the other usual one, ▁, is none
_WORD = re.compile(r"[^\W_]+(?:[-\u2010\u2011/|_]+[^\W_]+)*")


def _words(text: str) -> list[str]:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text).replace(_SPACE_OF_TOKENIZERS, " ")
    return _WORD.findall(plain.casefold())


def _verdict(word: str | None) -> bool | None:
    return True if word in YES else False if word in NO else None


def parse_yes_no(token: str) -> bool | None:
    """Return True if a token is a spelling of yes (or true), False if of no (or false), None otherwise.

    Nothing but marks and spaces may stand around the word.
    """
    words = _words(token)
    return _verdict(words[0]) if len(words) == 1 else None


def is_decoration(token: str) -> bool:
    """Return whether a token has no letter and no digit, so that the first word is still to come.

    A part of a character that a tokenizer has cut (U+FFFD) may be a letter, and is no decoration.
    """
    return not _words(token) and "\ufffd" not in token


def leading_verdict(text: str) -> bool | None:
    """Return the verdict of the first word of a text (yes, true, no or false); None if that word is another."""
    return _verdict(next(iter(_words(text)), None))


def first_verdict(text: str) -> bool | None:
    """Return the verdict of the first yes or no anywhere in a text; None if there is none.

    The rule of zero-shot CoT's answer cleansing (Kojima et al., NeurIPS 2022,
    https://github.com/kojima-takeshi188/zero_shot_cot/blob/5ef330f/utils.py): "most likely No." is no, "moot" and "not
    known" are neither. There only quotes, full stops, colons, commas and spaces end a word; here every mark does, so
    that "**Yes**" and "(No)" count.
    """
    said = (word for word in _words(text) if word in _SAYS_YES or word in _SAYS_NO)
    return _verdict(next(said, None))
