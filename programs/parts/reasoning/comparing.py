"""Questions that compare two things: the LM states both values, and the program decides which is which.

Small LMs find two dates more often than they can tell which is earlier, and a program can: reasoning is the LM's, and
what follows from it is computed, as in Gao et al., "PAL: Program-aided Language Models", ICML 2023, section 3
(https://arxiv.org/abs/2211.10435).
"""

import re
from datetime import datetime
from typing import NamedTuple

import dspy

from programs.parts.prediction import drop_from_trace
from signatures.text_words import contains_words, same_words
from signatures.yes_no import parse_yes_no

_VERDICT = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b"
_COMPARES = re.compile(
    rf"\A\W*{_VERDICT}.*\b(?:and|or|before|after|than|as)\b|\S,? or (?:the |an? )?\S|还是|還是|都是?",
    re.IGNORECASE | re.DOTALL,
)
_EARLIEST, _LATEST = datetime(1, 1, 1), datetime(1, 12, 31)
_YEAR = re.compile(r"(?<![\d.,])\d{3,4}(?![\d,]|\.\d)")
_CHINESE = str.maketrans({"年": "-", "月": "-", "日": None})  # 1901年5月4日 as 1901-5-4
_SPAN = re.compile(r" to | until |\s*[–—]\s*| - ")
_NUMBER = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)(?: (?P<size>thousand|million|billion|trillion))?", re.IGNORECASE)
_SIZES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_DAY, _LENGTH = "day", "length"  # kinds of values beside numbers, whose kind is their unit


def compares_two(question: str) -> bool:
    """Return whether a question seems to compare two things: it offers a choice, or asks yes or no of two."""
    return bool(_COMPARES.search(question))


def decided_answer(reply: dspy.Prediction) -> str:
    """Return what the stated values decide, else the LM's answer; a reply that they overrule is no demonstration.

    They decide where both are dates, periods or numbers of one unit and differ, and, of one value that two things may
    share, where they are no dates. Of dates that overlap ("1920" and "May 1920") nothing follows.

    Args:
        reply: With the output fields of `signatures.reading.CompareTwo`.
    """
    said = str(reply.answer).strip()
    answer = _by_values(reply, asks_verdict=parse_yes_no(said) is not None) or said
    if same_words(answer) != same_words(said):
        drop_from_trace(reply)
    return answer


def _by_values(reply: dspy.Prediction, *, asks_verdict: bool) -> str:
    """Return the answer that the values decide; "" if they decide nothing."""
    first, second = (_without_owner(str(value)) for value in (reply.first_value, reply.second_value))
    if reply.wanted == "same":
        known = first and second and not (_days(first) and _days(second))
        return ("yes" if agree(first, second) else "no") if asks_verdict and known else ""
    lower = first_is_lower(first, second) if reply.wanted in ("lower", "higher") else None
    if lower is None:
        return ""
    is_first = lower == (reply.wanted == "lower")
    if asks_verdict:
        return "yes" if is_first else "no"
    return str(reply.first if is_first else reply.second).strip()


def _without_owner(value: str) -> str:
    """Return a value without the one it belongs to: "Ada Lind: 4 May 1901" is the date."""
    return value.rpartition(": ")[2].strip()


def agree(first: str, second: str) -> bool:
    """Return whether two values are the same, or one contains the other ("American", "American actor")."""
    return same_words(first) == same_words(second) or contains_words(first, second) or contains_words(second, first)


class _Amount(NamedTuple):
    """What a value may be: of a date or length that is not stated to the day, from the least to the most in days."""

    kind: str
    least: float
    most: float


def first_is_lower(first: str, second: str) -> bool | None:
    """Return whether the first value is the lower one; None if they cannot be compared, or may be equal.

    Compared are two dates, two periods ("1901 to 1960", by their length), or two numbers of one unit.
    """
    one, two = _amount(first), _amount(second)
    if one is None or two is None or one.kind != two.kind:
        return None
    return True if one.most < two.least else False if two.most < one.least else None


def _amount(value: str) -> _Amount | None:
    ends = [_days(end) for end in _SPAN.split(value, maxsplit=1)]
    if len(ends) == 2 and ends[0] and ends[1]:
        return _Amount(_LENGTH, ends[1][0] - ends[0][1], ends[1][1] - ends[0][0])
    days = _days(value)
    return _Amount(_DAY, *days) if days else _number(value)


def _days(value: str) -> tuple[float, float] | None:
    """Return the first and the last day that a date may be; None of what states no year, or several."""
    from dateutil.parser import ParserError, parse

    value = value.translate(_CHINESE).strip("- ")
    years = list(_YEAR.finditer(value))
    if len(years) != 1:
        return None
    try:
        first, last = (parse(value, default=default).toordinal() for default in (_EARLIEST, _LATEST))
    except (ParserError, OverflowError):
        if value[years[0].end() :].strip(" .)") or int(years[0][0]) < 1:
            return None  # "1200 students" is a number
        first, last = (default.replace(year=int(years[0][0])).toordinal() for default in (_EARLIEST, _LATEST))
    return first, last


def _number(value: str) -> _Amount | None:
    """Return the only number of a value; its unit is what else the value says."""
    found = list(_NUMBER.finditer(value))
    if len(found) != 1:
        return None
    number = float(found[0]["number"].replace(",", "")) * _SIZES.get((found[0]["size"] or "").lower(), 1)
    return _Amount(same_words(value[: found[0].start()] + value[found[0].end() :]), number, number)
