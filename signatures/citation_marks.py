"""Citation marks: which passages a text cites by number.

A mark is a bracket with numbers of one to three digits: `[1]`, `[1, 2]`, `[1; 2]`, `[1 and 2]`, `[1-3]`, `[ 1 ]`,
`[^1]`, `[[1]]`, and the same with full-width digits or brackets (`［１］`, `【1】`, `〔1〕`). A number of four digits
is a year, as in `[1990]`, and no mark. A range counts if it ascends and spans at most `WIDEST_RANGE` numbers. Brackets
that look like marks but cannot be read (`[3-1]`, `[Passage 2]`, `【6†source】`) stay in the text; `unread_marks` lists
them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

WIDEST_RANGE = 20  # numbers; a wider one is rather a count of pages or of years

_NUMBER = r"\^?(?<!\d)\d{1,3}(?!\d)"
_RANGE = r"[-–—~～至]|to\b|through\b"
_COMMA = r"[,，;；、](?:\s{0,3}(?:and\b|和))?|and\b|&|和|与"
# White space is bounded and repeats never give back, so that the time to search stays linear in the length of the text.
_NUMBERS = rf"\s{{0,3}}{_NUMBER}(?:\s{{0,3}}(?:{_RANGE}|{_COMMA})\s{{0,3}}{_NUMBER})*+\s{{0,3}}"
_MARK = re.compile(rf"\[\[{_NUMBERS}\]\]|\[{_NUMBERS}\]|［{_NUMBERS}］|【{_NUMBERS}】|〔{_NUMBERS}〕", re.IGNORECASE)
_ITEM = re.compile(rf"(\d+)(?:\s*(?:{_RANGE})\s*\^?(\d+))?", re.IGNORECASE)

_RANGE_SIGN = re.compile(_RANGE, re.IGNORECASE)

_BRACKET = re.compile(r"[\[［【〔]([^\[\]［］【】〔〕\n]{1,40}|\d{41,})[\]］】〕]")
_NO_PASSAGE = re.compile(r"\d[.:]\d")  # a decimal number, a version, or a time
_BETWEEN_MARKS = re.compile(r"\s*[-–—~～,，;；、]?\s*")
_WORDS_OF_MARKS = re.compile(
    r"passages?|documents?|docs?|sources?|references?|refs?|citations?|cite|notes?|pages?|pp?|and|to|through|no|id|"
    r"段落|来源|文献|参考|和|与|至|(?<=\d)[a-z](?![a-z])",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[^\W\d_]")
_NUMBER_OF_A_MARK = re.compile(r"(?<!\d)(?:\d{1,3}|\d{5,})(?!\d)")  # four digits are a year
_IN_BRACKETS = re.compile(r"[(（]\s*(?:\0\s*)+[)）]")  # nothing but marks
_SPACE_BEFORE_PUNCTUATION = re.compile(r"\s+([.,;:!?。，；：！？、])")


@dataclass(frozen=True)
class Mark:
    """One citation mark in a text.

    Args:
        start: Offset of its opening bracket.
        end: Offset behind its closing bracket.
        numbers: What it cites, ranges written out, in the order of the text.
        ranged: Whether a range is among them.
    """

    start: int
    end: int
    numbers: tuple[int, ...]
    ranged: bool


def find_marks(text: str) -> list[Mark]:
    """Return the marks of a text in order; brackets that cannot be read are none."""
    if not text.isascii() or "[" in text:  # most texts have none
        found = (_read(match) for match in _MARK.finditer(text))
        return [mark for mark in found if mark is not None]
    return []


def _read(match: re.Match[str]) -> Mark | None:
    numbers: list[int] = []
    ranges = 0
    for item in _ITEM.finditer(match[0]):
        first, last = int(item[1]), int(item[2] or item[1])
        if not first <= last < first + WIDEST_RANGE:
            return None
        numbers += range(first, last + 1)
        ranges += item[2] is not None
    if ranges < len(_RANGE_SIGN.findall(match[0])):  # "[1-2-3]"
        return None
    return Mark(match.start(), match.end(), tuple(numbers), ranges > 0)


def citation_numbers(text: str) -> list[int]:
    """Return the numbers of all marks in order of first appearance, without repeats."""
    return list(dict.fromkeys(number for mark in find_marks(text) for number in mark.numbers))


def unread_marks(text: str) -> list[str]:
    """Return the brackets that look like marks but cannot be read, in order.

    They hold a number that is no year and, besides signs, only words such as "passage" or "source".
    """
    read = {mark.start for mark in find_marks(text)}
    return [
        match[0]
        for match in _BRACKET.finditer(text)
        if match.start() not in read
        and match.start() - 1 not in read  # the inner bracket of [[1]]
        and _NUMBER_OF_A_MARK.search(match[1])
        and not _NO_PASSAGE.search(match[1])
        and not _LETTER.search(_WORDS_OF_MARKS.sub("", match[1]))
    ]


def _replaced(text: str, replacement: Callable[[Mark], str]) -> str:
    parts, end = [], 0
    for mark in find_marks(text):
        parts += [text[end : mark.start], replacement(mark)]
        end = mark.end
    return "".join([*parts, text[end:]])


def strip_citations(text: str) -> str:
    """Return `text` without its marks, what joins and surrounds them ("[1],[2]", "([1])"), and spaces left by them."""
    parts: list[str] = []
    end = 0
    for mark in find_marks(text):
        between = text[end : mark.start]
        joined = end > 0 and _BETWEEN_MARKS.fullmatch(between) is not None
        parts += [" " * (between[:1].isspace()) if joined else between, "\0"]
        end = mark.end
    plain = _IN_BRACKETS.sub("", "".join([*parts, text[end:]])).replace("\0", "")
    return _SPACE_BEFORE_PUNCTUATION.sub(r"\1", re.sub(r"\s{2,}", " ", plain)).strip()


def renumber_citations(text: str, number_of: Callable[[int], int]) -> str:
    """Return `text` with every number n in its marks replaced by `number_of(n)`.

    A range is written out, since its numbers may no longer follow each other.
    """

    def renumbered(mark: Mark) -> str:
        written = text[mark.start : mark.end]
        if not mark.ranged:
            return re.sub(r"\d+", lambda digits: str(number_of(int(digits[0]))), written)
        brackets = 2 if written.startswith("[[") else 1
        numbers = ", ".join(dict.fromkeys(str(number_of(number)) for number in mark.numbers))
        return f"{written[:brackets]}{numbers}{written[-brackets:]}"

    return _replaced(text, renumbered)
