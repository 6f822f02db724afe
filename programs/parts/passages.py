"""Find the passage that contains a quote or an answer."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from signatures.citation_marks import find_marks
from signatures.common.words import FUNCTION_WORDS, strip_suffix
from signatures.text import CJK
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage
from signatures.yes_no import parse_yes_no

# Whole quotes that say there is nothing to quote, and such statements within a longer one. Empty items of a list are in
# `ranking.py`, refusals to revise a question in `questions.py`: what means nothing differs with what was asked.
_NO_EVIDENCE = {
    *("none", "nothing", "empty", "null", "n/a", "n a", "unknown", "not applicable", "none of the passages"),
    *("no evidence", "no relevant evidence", "not mentioned", "not found", "not given", "not stated", "not available"),
    *("无", "没有", "空", "未知", "不适用", "未提及", "未提到", "没有提及", "没有提到", "未找到", "没有找到"),
    *("无证据", "没有证据", "无相关证据", "没有相关证据", "无相关内容", "没有相关内容", "无相关信息", "没有相关信息"),
}
_NO_EVIDENCE_KEYS = frozenset(map(same_words, _NO_EVIDENCE))
_SAYS_NOTHING = re.compile(
    r"^\W*(?:no|none|nothing|neither|there (?:is|are) no)\b"
    r"|\b(?:passages?|documents?|texts?|references?|context|evidence|information)\b.{0,80}"
    r"(?:\b(?:no|not|none|nothing|neither|cannot|lacks?)\b|n['’]t\b)"
    r"|(?:没有|未|无|不).{0,6}(?:提及|提到|找到|给出|说明|包含|涉及|相关|证据)",
    re.IGNORECASE | re.DOTALL,
)

_LEAD = re.compile(r"^\W*(?:passage|document|source|reference|段落|文档|资料|参考)\s*\d+\s*[:：.、\-–—]", re.IGNORECASE)
_ELLIPSIS = re.compile(r"[\[［(（]?(?:\.{3,}|…+|\. \. \.)[\]］)）]?")
_SHORTEST_INEXACT = 4  # words
_QUESTION = re.compile(r"[?？]\W*$")
_HAN = re.compile(f"[{CJK}]")


def quoted_passage(quote: str, passages: Sequence[Passage], *, above: float = 0.5) -> Passage | None:
    """Return the passage whose text contains `quote`, verbatim or nearly; None if there is none.

    A verbatim quote may have any length, one word or a name included, if it is not made of function words alone and
    does not say that there is nothing to quote. A title, which an LM sees in front of the text, states nothing by
    itself: alone it is a quote only of a text that contains it. Case, punctuation, quotation marks, passage numbers and
    a title in front do not count, and words may be omitted where the quote has an ellipsis.

    LMs also copy with changes. A quote of four words or more that no passage contains verbatim is matched to the
    passage with the largest share of its distinct terms, if that share is above `above` in [0, 1]. Terms are the stems
    of content words, and pairs of neighbouring characters in Chinese. A question, as when an LM repeats the one asked,
    states nothing and counts only verbatim.

    Measured on HotpotQA and MuSiQue (`tests/programs/parts/test_quotes_on_real_data.py`): accepted are 99 % of 248 gold
    sentences with 40 % of their words changed and 84 % of 140 sub-questions rewritten as statements with their gold
    answers; of gold sentences shown beside three other passages, 12 % if these are of the same question, none if not.
    """
    bare = _LEAD.sub("", _without_marks(quote))
    if _is_nothing(bare):
        return None
    texts = [_without_marks(passage.text) for passage in passages]
    for passage, text in zip(passages, texts, strict=True):
        if _is_verbatim(bare, text) or _is_verbatim(_without_title(bare, passage.title), text):
            return passage
    if _SAYS_NOTHING.search(bare) or _QUESTION.search(bare):
        return None
    shares = [_share(_without_title(bare, passage.title), text) for passage, text in zip(passages, texts, strict=True)]
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return passages[best] if best is not None and shares[best] > above else None


def _is_nothing(quote: str) -> bool:
    """Return whether a quote is empty, made of function words alone, or a phrase that says there is no evidence."""
    key = same_words(quote)
    yes_or_no = parse_yes_no(quote) is not None
    return yes_or_no or key in _NO_EVIDENCE_KEYS or FUNCTION_WORDS.issuperset(key.split())


def _without_marks(text: str) -> str:
    """Return a text with a space in place of each citation mark, so that the words on both sides stay two."""
    for mark in reversed(find_marks(text)):
        text = f"{text[: mark.start]} {text[mark.end :]}"
    return text


def _is_verbatim(quote: str, text: str) -> bool:
    """Return whether `text` contains the words of `quote` in order, those between two ellipses next to each other."""
    parts = [key for key in map(same_words, _ELLIPSIS.split(quote)) if key]
    rest = f" {same_words(text)} "
    for part in parts:
        _, found, after = rest.partition(f" {part} ")
        if not found:
            return False
        rest = f" {after}"
    return bool(parts)


def _without_title(quote: str, title: str) -> str:
    """Return the words of a quote, without those of a title in front of it."""
    words, front = text_words(quote), text_words(title)
    return " ".join(words[len(front) :]) if front and words[: len(front)] == front else quote


def _share(quote: str, text: str) -> float:
    """Return the share of the distinct terms of `quote` that `text` contains; 0 for a quote that is too short."""
    if len(text_words(quote)) < _SHORTEST_INEXACT:
        return 0.0
    terms = terms_of(quote)
    return len(terms & terms_of(text)) / len(terms) if terms else 0.0


def terms_of(text: str) -> set[str]:
    """Return the stems of content words and the pairs of neighbouring Chinese characters."""
    words = text_words(text)
    stems = {strip_suffix(word) for word in words if word not in FUNCTION_WORDS and not _HAN.match(word)}
    return stems | {first + second for first, second in pairwise(words) if _HAN.match(first) and _HAN.match(second)}


def passages_stating(answer: str, passages: Iterable[Passage]) -> list[str]:
    """Return the ids of the passages that contain `answer` as whole words after normalisation; in Chinese, as text.

    These are the citations of programs whose reader does not quote. The list is empty for a yes/no answer.
    """
    if not same_words(answer) or parse_yes_no(answer) is not None:
        return []
    return [passage.id for passage in passages if contains_words(f"{passage.title} {passage.text}", answer)]


def deduplicate(passages: Iterable[Passage]) -> list[Passage]:
    """Return the passages in order, the first of each id."""
    first: dict[str, Passage] = {}
    for passage in passages:
        first.setdefault(passage.id, passage)
    return list(first.values())


def titled_text(passage: Passage) -> str:
    """Return the text of a passage after its title, if it has one."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text
