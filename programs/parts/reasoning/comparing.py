"""Questions that compare two things: the LM states both values, and the program decides which is which.

Small LMs find two dates more often than they can tell which is earlier, and a program can: reasoning is the LM's, and
what follows from it is computed, as in Gao et al., "PAL: Program-aided Language Models", ICML 2023, section 3
(https://arxiv.org/abs/2211.10435). What is not certain decides nothing, and the question is read like any other.
"""

import difflib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import dspy

from programs.parts.passages import is_no_item
from signatures.text_words import contains_words, same_words, without_brackets

_CHOICE = re.compile(r"(?:^|\W)or(?: (?:the |an? )?(?:\w+ )?)?\W*$|(?:还是|還是)\W*$", re.IGNORECASE)
_AGAINST = re.compile(r"\b(?:before|after|than|as)\b", re.IGNORECASE)  # what one thing has, that of the other
_WHETHER = re.compile("是否|[吗嗎]")
_LETTER = "[A-Za-z0-9\u00c0-\u024f]"  # of scripts that divide words
_BRACKET = re.compile(r" ?\([^()]*\)")
VERDICT = re.compile(r"\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)
_TWO = re.compile(r"\S,? or (?:the |an? )?\S|\b(?:and|before|after|than|as)\b|还是|還是|[和与與跟]", re.IGNORECASE)
_MORE = re.compile(r", [^,]+, or ", re.IGNORECASE)  # three or more choices
_SAME = re.compile(r"\b(?:same|shares?)\b|相?同", re.IGNORECASE)
_EARLIER = re.compile(r"\b(?:first|earlier|earliest|older|oldest|before|sooner)\b|[更最]早|最先|先于", re.IGNORECASE)
_LATER = re.compile(r"\b(?:later|latest|last|younger|youngest|newer|newest|recently|after)\b|[更最]晚", re.IGNORECASE)
_LENGTHS = re.compile(r"\blong(?:er|est)?\b|\bshort(?:er|est)?\b|[更最][长長久短]", re.IGNORECASE)
_AMOUNTS = re.compile(
    r"\b(?:more|most|less|least|fewer|fewest|larger|largest|bigger|biggest|smaller|smallest|higher|highest|lower|lowest"
    r"|taller|tallest)\b|[更最][多少大小高低]",
    re.IGNORECASE,
)
COMPARING = (_SAME, _EARLIER, _LATER, _LENGTHS, _AMOUNTS)
_ALIKE = 0.8  # of two spellings of a name, by `difflib`

_EARLIEST, _LATEST = datetime(1, 1, 1), datetime(1, 12, 31)
_YEAR = re.compile(r"(?<![\d.,])\d{3,4}(?!\d|,\d|\.\d)")
_CHINESE = str.maketrans({"年": "-", "月": "-", "日": None})  # 1901年5月4日 as 1901-5-4
_SPAN = re.compile(r" to | until |\s*[–—]\s*| - ")
# What makes a date or number another one than its digits say.
_OPEN = re.compile(
    r"\bB\.?\s?C|前|(?:^|\s)[-−]\d|\b(?:before|after|since|between|or|present|now|not|about|over|under|nearly)\b|至今",
    re.IGNORECASE,
)
_DAY_FIRST = re.compile(r"\b(\d{1,2})([/.])(\d{1,2})\2\d{4}\b")
_NUMBER = re.compile(
    r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?![\d,.]\d)(?: (?P<size>thousand|million|billion|trillion)\b)?",
    re.IGNORECASE,
)
_SIZES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_SIGNS = re.compile(r"[$€£¥%°]")
_DAY, _LENGTH = "day", "length"  # kinds of values beside numbers, whose kind is their unit


def compares_two(question: str) -> bool:
    """Return whether a question seems to compare two things by a value that can be ordered, or be the same."""
    return (
        any(words.search(question) for words in COMPARING)
        and bool(_TWO.search(question))
        and not _MORE.search(question)
    )


class Decided(NamedTuple):
    """What two stated values decide.

    Args:
        answer: The answer; "" if they decide nothing.
        owners: To whom both values belong, or who stands in their place, such as the directors of two films whose dates
            are asked for: what to search for next unless it was read. Empty if there is nothing.
        names: Of the two things to which the owners belong, as the question spells them, in its order.
    """

    answer: str
    owners: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def decide(question: str, reply: dspy.Prediction) -> Decided:
    """Return what the stated values decide; nothing unless the question names both things.

    They decide where both are dates, periods or numbers of one unit and differ, and that two things have one value,
    where it is no date; that they do not have one, where the values have no word in common and the LM says no. Of dates
    that overlap ("1920" and "May 1920") nothing follows, nor of one date about a length. Whether the lower or the
    higher value is asked for, words of the question say of dates ("older"), else the LM.

    Args:
        question: That compares.
        reply: With the output fields of `signatures.reading.CompareTwo`.
    """
    names = [name_in(question, str(name)) for name in (reply.first, reply.second)]
    values = [str(reply.first_value), str(reply.second_value)]
    asked = about_two(question, names) if all(map(_stated, values)) else None
    if asked is None or reply.wanted not in ("same", "lower", "higher"):
        return Decided("")
    if names != asked.names:
        values = values[::-1]
    if reply.wanted == "same":
        answer = asked.about_same(values, says_no=same_words(str(reply.answer)) == "no")
    else:
        answer = asked.by_order(values, wants_lower=reply.wanted == "lower")
    owners = tuple(_owner(question, value) for value in values)
    if not all(owners) or same_words(owners[0]) == same_words(owners[1]):
        return Decided(answer)
    # A value that decides is no owner, unless one is named before it.
    return (
        Decided(answer, owners, tuple(asked.names)) if not answer or all(map(_has_owner, values)) else Decided(answer)
    )


class AboutTwo(NamedTuple):
    """A question about two things, which it names so, in its order, and where they stand."""

    question: str
    names: list[str]
    spans: list[tuple[int, int]]

    def about_same(self, values: Sequence[str], *, says_no: bool) -> str:
        """Return whether both have one value; "" if that is not asked, or not certain."""
        first, second = (same_words(_stated(value)) for value in values)
        if not self.asks_yes_no() or not _SAME.search(self.without_names()):
            return ""
        if first == second:
            return "" if _days(_stated(values[0])) else "yes"
        return "no" if says_no and not set(first.split()) & set(second.split()) else ""

    def by_order(self, values: Sequence[str], *, wants_lower: bool) -> str:
        """Return which of them has the value that is asked for, or whether one has it; "" if that is not certain."""
        one, two = (_amount(_stated(value)) for value in values)
        lower, words = _is_lower(one, two), self.without_names()
        if lower is None or one is None or (one.kind == _DAY and _LENGTHS.search(words)):
            return ""
        asked = _asked_of_dates(words) if one.kind == _DAY else None
        is_first = lower == (wants_lower if asked is None else asked)
        if not self.asks_yes_no():
            return "" if _WHETHER.search(self.question) else self.names[0 if is_first else 1]
        between = self.between()
        one_way = not (_EARLIER.search(words) and _LATER.search(words))  # "older or younger than"
        return "" if not (one_way and _AGAINST.search(between)) else "yes" if is_first else "no"

    def between(self) -> str:
        """Return what stands between the two."""
        return self.question[self.spans[0][1] : self.spans[1][0]]

    def asks_yes_no(self) -> bool:
        """Return whether the answer is yes or no; of "Was one or the other born first?" it is one of the two."""
        between = self.between()
        return bool(VERDICT.match(self.question)) and (not _CHOICE.search(between) or bool(_AGAINST.search(between)))

    def without_names(self) -> str:
        """Return the question with a blank in place of each."""
        return _replaced(self.question, self.spans, (" ", " "))


def about_two(question: str, names: Sequence[str]) -> AboutTwo | None:
    """Return a question about two things, given their names as it spells them; None unless it names both, apart."""
    if not all(names) or same_words(names[0]) == same_words(names[1]):
        return None
    spans = _places(question, names)
    if not spans:
        return None
    (first, one), (second, other) = sorted(zip(spans, names, strict=True))
    return AboutTwo(question, [one, other], [first, second])


def _places(question: str, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return where each name occurs as separate words, the longer one first, as it may contain the other; or none."""
    found: dict[str, tuple[int, int]] = {}
    for name in sorted(names, key=len, reverse=True):
        places = (match.span() for match in re.finditer(_whole(name), question))
        free = (
            place for place in places if all(place[1] <= taken[0] or taken[1] <= place[0] for taken in found.values())
        )
        if (first := next(free, None)) is None:
            return []
        found[name] = first
    return [found[name] for name in names]


def _whole(name: str) -> str:
    return rf"(?<!{_LETTER}){re.escape(name)}(?!{_LETTER})"


def _replaced(question: str, spans: Sequence[tuple[int, int]], texts: Sequence[str]) -> str:
    """Return the question with texts in place of two spans, in its order."""
    (start, end), (next_start, next_end) = spans
    return f"{question[:start]}{texts[0]}{question[end:next_start]}{texts[1]}{question[next_end:]}"


def alike(name: str, other: str) -> bool:
    """Return whether two names are spelled alike, but for case, marks, and text in brackets."""
    one, two = (same_words(without_brackets(each)) for each in (name, other))
    return bool(one) and difflib.SequenceMatcher(None, one, two).ratio() >= _ALIKE


def name_in(question: str, name: str) -> str:
    """Return a name as the question spells it, which LMs do not always; "" if it has no such name."""
    name = name.strip(" ?")
    if name and (place := re.search(_whole(name), question, re.IGNORECASE)):
        return place[0]
    words, size = question.split(), len(name.split())
    sizes = range(max(1, size - 1), size + 2)
    spans = (" ".join(words[start : start + n]).strip(" ,?") for n in sizes for start in range(len(words) - n + 1))
    spelled = {span.casefold(): span for span in spans}
    close = difflib.get_close_matches(name.casefold(), spelled, 1, _ALIKE)
    return spelled[close[0]] if close else ""


def about_owners(question: str, decided: Decided) -> str:
    """Return the question with the owners of the values in place of the two things, and of brackets behind these."""
    spans = _places(question, decided.names)
    ends = ((start, bracket.end() if (bracket := _BRACKET.match(question, end)) else end) for start, end in spans)
    return _replaced(question, list(ends), decided.owners) if spans else question


def with_names_of(decided: Decided, again: dspy.Prediction) -> dspy.Prediction:
    """Return the reply about owners as one about what they belong to; both name things in the question's order."""
    first, second = decided.names
    return dspy.Prediction(
        first=first,
        first_value=again.first_value,
        second=second,
        second_value=again.second_value,
        wanted=again.wanted,
        answer=again.answer,
    )


def _asked_of_dates(words: str) -> bool | None:
    """Return whether the earlier of two dates is asked for; None if no word says so, or words disagree."""
    earlier, later = bool(_EARLIER.search(words)), bool(_LATER.search(words))
    return earlier if earlier != later else None


def _owner(question: str, value: str) -> str:
    """Return to whom a value belongs: who stands before it ("Ada Lind: 4 May 1901"), or in its place; "" if nobody."""
    parts = _parts(value)
    owner = parts[-2] if _has_owner(value) else parts[-1]
    nobody = is_no_item(owner) or contains_words(owner, "not") or contains_words(question, owner)
    return "" if nobody or re.search(r"\d", owner) else owner


def _has_owner(value: str) -> bool:
    """Return whether a name stands before a value; a role ("director: Ada Lind") is not a name."""
    parts = _parts(value)
    return len(parts) > 1 and not parts[-2][:1].islower()


def _parts(value: str) -> list[str]:
    return [part.strip() for part in re.split(r": |：", value)]


def _stated(value: str) -> str:
    """Return a value without the one it belongs to ("Ada Lind: 4 May 1901" is the date); "" if none is stated."""
    stated = _parts(value)[-1]
    return "" if is_no_item(stated) or contains_words(stated, "not") else stated


class _Amount(NamedTuple):
    """What a value may be: of a date or length that is not stated to the day, from the least to the most in days."""

    kind: str
    least: float
    most: float


def first_is_lower(first: str, second: str) -> bool | None:
    """Return whether the first value is the lower one; None if they cannot be compared, or may be equal.

    Compared are two dates, two periods ("1901 to 1960", by their length), or two numbers of one unit.
    """
    return _is_lower(_amount(first), _amount(second))


def _is_lower(one: _Amount | None, two: _Amount | None) -> bool | None:
    if one is None or two is None or one.kind != two.kind:
        return None
    return True if one.most < two.least else False if two.most < one.least else None


def _amount(value: str) -> _Amount | None:
    if _OPEN.search(value):
        return None
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
    whole = int(years[0][0]) > 0 and not value[years[0].end() :].strip(" .)")  # "1200 students" is a number
    year = _of_year(int(years[0][0])) if whole else None
    parts = _DAY_FIRST.search(value)
    if parts and int(parts[1]) <= 12 and int(parts[3]) <= 12 and parts[1] != parts[3]:
        return year  # day or month first
    try:
        first, last = (parse(value, default=default, ignoretz=True).toordinal() for default in (_EARLIEST, _LATEST))
    except (ParserError, OverflowError):
        return year
    return first, last


def _of_year(year: int) -> tuple[float, float]:
    return _EARLIEST.replace(year=year).toordinal(), _LATEST.replace(year=year).toordinal()


def _number(value: str) -> _Amount | None:
    """Return the only number of a value; its unit is what else the value says."""
    found = list(_NUMBER.finditer(value))
    beside = _NUMBER.sub("", value)
    if len(found) != 1 or re.search(r"\d", beside):
        return None
    number = float(found[0]["number"].replace(",", "")) * _SIZES.get((found[0]["size"] or "").lower(), 1)
    return _Amount(f"{same_words(beside)} {''.join(_SIGNS.findall(beside))}", number, number)
