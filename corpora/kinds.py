"""What a question asks for: its kind, the type of its answer, and the choices that it offers."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from signatures.text import CJK, normalize_answer
from signatures.text_words import without_brackets

COMPOSED, COMPARISON = "composed", "comparison"
KINDS = (COMPOSED, COMPARISON)
_KINDS = {
    "bridge": COMPOSED,
    "compositional": COMPOSED,
    "inference": COMPOSED,
    "comparison": COMPARISON,
    "bridge_comparison": COMPARISON,
}
_HOPS = re.compile(r"[2-9]hop\d?")  # types of MuSiQue

YES, NO, NUMBER, CHOICE, SPAN, NONE = "yes", "no", "number or date", "one of two choices", "span", "none"
ANSWER_TYPES = (YES, NO, NUMBER, CHOICE, SPAN, NONE)
_NUMBER_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion first "
    "second third january february march april may june july august september october november december bc ad".split()
)
_BETWEEN = frozenset("from to and until between of about around over in on since circa c".split())
_DIGITS = re.compile(r"\d[\d.,:/%–-]*(st|nd|rd|th|s|bc|ad)?")
HAN = re.compile(rf"[{CJK}]")
_GAP, _JOINING = 6, frozenset("and or than with both vs versus".split())
_TWO = re.compile(r",? (?:or|and) ", re.IGNORECASE)


def kind_of(type: str | None, stated: object = None) -> str | None:
    """Return the kind of a question; None if it is not known.

    Args:
        type: In HotpotQA, 2WikiMultihopQA or MuSiQue.
        stated: The kind that the question itself states; it goes before its type.
    """
    if isinstance(stated, str) and stated in KINDS:
        return stated
    name = (type or "").strip().lower().replace("-", "_").replace(" ", "_")
    return COMPOSED if _HOPS.fullmatch(name) else _KINDS.get(name)


def estimated_kind(question: str, answers: Sequence[str], gold_titles: Iterable[str]) -> str:
    """Return the kind of a question without a type: right for 97 % of 1,676 other questions of HotpotQA with a type.

    Comparisons offer two choices, or name the titles of two gold passages with a word such as "and" between them.
    """
    if choices(question, answers):
        return COMPARISON
    text, places = f" {normalize_answer(question)} ", []
    for title in set(gold_titles):
        name = normalize_answer(without_brackets(title))
        if name and (start := text.find(f" {name} ")) >= 0:
            places.append((start, start + len(name) + 1))
    places.sort()
    gaps = (text[end:start].split() for (_, end), (start, _) in pairwise(places))
    return COMPARISON if any(len(gap) <= _GAP and not _JOINING.isdisjoint(gap) for gap in gaps) else COMPOSED


def stated(answers: Iterable[str]) -> list[str]:
    """Return the answers that have a letter or digit: blank ones, and signs alone, are no answers."""
    return [text for text in answers if any(map(str.isalnum, text))]


def answer_type(question: str, answers: Sequence[str]) -> str:
    """Return which of `ANSWER_TYPES` the main answer of a question is; "none" if no answer is `stated`."""
    answers = stated(answers)
    if not answers:
        return NONE
    if (main := normalize_answer(answers[0])) in (YES, NO):
        return main
    return CHOICE if choices(question, answers) else NUMBER if _is_number(answers[0]) else SPAN


def choices(question: str, answers: Sequence[str]) -> tuple[str, str] | None:
    """Return the two choices that a question offers; None if it offers none.

    They are yes and no if that is the answer, or two names with "or" or "and" between them of which one is an answer.
    The extent of the other name is estimated.
    """
    answers = stated(answers)
    wanted = [text for text in map(normalize_answer, answers[:1]) if text]
    if not wanted:
        return None
    if wanted[0] in (YES, NO):
        return YES, NO
    for between in reversed(list(_TWO.finditer(question))):
        left, right = question[: between.start()], question[between.end() :].rstrip(" ?.")
        before, after = normalize_answer(left), normalize_answer(right)
        if f" {before}".endswith(f" {wanted[0]}"):
            return answers[0], right.split(",")[0]
        if f"{after} ".startswith(f"{wanted[0]} "):
            return _last_name(left), answers[0]
    return None


def contains_answer(question: str, answers: Sequence[str]) -> bool:
    """Return whether an accepted answer, other than yes and no, occurs in the question."""
    return any(normalize_answer(text) not in ("", YES, NO) and states(question, text) for text in answers)


def states(text: str, answer: str) -> bool:
    """Return whether an answer occurs in a text: as separate words, or anywhere if it has Han characters."""
    wanted = normalize_answer(answer)
    if HAN.search(wanted):
        return wanted in normalize_answer(text)
    return f" {wanted} " in f" {normalize_answer(text)} "


def _last_name(text: str) -> str:
    """Return what follows the last comma, or else the last words with capital letters."""
    if "," in text:
        return text.rsplit(",", 1)[1].strip()
    words = text.split()
    start = len(words)
    while start and (words[start - 1][:1].isupper() or words[start - 1][:1].isdigit()):
        start -= 1
    return " ".join(words[start:] or words[-1:])


def _is_number(answer: str) -> bool:
    words = [word for word in re.split(r"[\s,]+", answer.lower().strip()) if word and word.strip(".") not in _BETWEEN]
    are = [bool(_DIGITS.fullmatch(word.lstrip("$£€")) or word.strip(".,") in _NUMBER_WORDS) for word in words]
    return bool(are) and are[0] and (2 * sum(are) > len(are) or len(are) == 2)
