"""Sub-questions from the derivations of R4C: triples of subject, relation and object that people wrote.

Inoue et al., "R4C: A Benchmark for Evaluating RC Systems to Get the Right Answer for the Right Reason", ACL 2020.
https://github.com/naoya-i/r4c
"""

import re
from collections.abc import Sequence
from html import unescape
from typing import Any, NamedTuple

from signatures.text_words import contains_words, count_words

_LONGEST = 8  # words of an answer
_PRONOUNS = frozenset("he she it they his her its their this that these those".split())
_BRACKETS = re.compile(r"\s*\([^)]*\)")
_IS = re.compile(r"(is|was|are|were)\b\s*(.*)", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:an?|the)$", re.IGNORECASE)
_YEAR = re.compile(r"\b\d{3,4}\b")
_PLACES = re.compile(r"(.*\b(?:located|born|based|situated|headquartered|found|raised|set))\s*(?:in|at|near)?")
_BY_PEOPLE = re.compile(
    r".*\b(?:directed|written|led|hosted|composed|produced|founded|designed|created|played|sung|owned|voiced|recorded|"
    r"published|released|performed|coached|edited|co-written|starred|portrayed) by"
)
_SAID = re.compile(r"(?:\w+ed|won|stars|features|plays|hosts|has|wrote|sang)(?: (?:in|for|at|on|by|with|as|to|from))?")
_ENDS_OPEN = re.compile(r"(?:the )?[\w -]+ (?:of|as|for|by|with|after)|(?:from|known as)")
_NAMES = re.compile(r"(?:an?|the|their|his|her|its)\b|[A-Z0-9\"$£€]|\w+(?: \w+)?$")
_GOES_ON = re.compile(
    r"(?:and|which|who|whose|that|to|of|in|with|for|refers)\b|.*\b(?:which|who|whose)\b", re.IGNORECASE
)


class Step(NamedTuple):
    """A hop: its sub-question, the answer, and the title of the paragraph that states it."""

    question: str
    answer: str
    title: str


class _Triple(NamedTuple):
    title: str
    subject: str
    relation: str
    object: str


def steps_of(question: str, answer: str, derivations: Sequence[Sequence[Sequence[Any]]]) -> list[Step]:
    """Return the hops of the first derivation that leads to the answer; empty if none does.

    It leads there if its triples can be asked in some order: the subject of the next one is named by the question or by
    an answer before. What comes after the answer is left out, unless the question names its answer, or asks yes or no.

    Args:
        question: Of HotpotQA.
        answer: Its answer.
        derivations: Of several people, each a list of [title, sentence number, [subject, relation, object]].
    """
    for derivation in derivations:
        triples = [_triple(item) for item in derivation]
        steps = _in_order(question, triples)
        if contains_words(question, answer) or answer in ("yes", "no"):
            found = steps
        else:
            stated = next((place for place, step in enumerate(steps, 1) if _same(step.answer, answer)), 0)
            found = steps[: max(stated, 2)] if stated else []
        if len(found) > 1:
            return found
    return []


def _triple(item: Sequence[Any]) -> _Triple:
    title, _, words = item
    subject, relation, value = (unescape(str(text)).strip() for text in words)
    return _Triple(unescape(str(title)).strip(), subject, relation, value)


def _in_order(question: str, triples: Sequence[_Triple]) -> list[Step]:
    """Return the triples as hops in an order in which they can be asked; empty if one cannot be."""
    left, steps, known = list(triples), [], [question]
    while left:
        triple = next((one for one in left if any(_names(text, one.subject) for text in known)), None)
        asked = ask(triple.subject, triple.relation, triple.object) if triple is not None else None
        if triple is None or asked is None:
            return []
        value = triple.object.rstrip(" .")
        steps.append(Step(asked, value, triple.title))
        known.append(value)
        left.remove(triple)
    return steps


def _names(text: str, subject: str) -> bool:
    return contains_words(text, _BRACKETS.sub("", subject))


def _same(one: str, other: str) -> bool:
    return contains_words(one, other) or contains_words(other, one)


def ask(subject: str, relation: str, value: str) -> str | None:
    """Return the question for the object of a triple; None where the triple cannot be worded as one.

    Args:
        subject: A name.
        relation: What people wrote between both: "is directed by", "was a", "starred in".
        value: The object, at most eight words.
    """
    subject, relation, value = (text.strip(" .") for text in (_BRACKETS.sub("", subject), relation, value))
    if not subject or not value or count_words(value) > _LONGEST or count_words(subject) > _LONGEST:
        return None
    if _GOES_ON.match(value) or not _NAMES.match(value) or subject.split()[0].lower() in _PRONOUNS:
        return None
    found = _IS.fullmatch(relation)
    if found:
        return _ask_what_is(subject, found[1].lower(), found[2].strip(), value)
    return f"{subject} {relation} what?" if _SAID.fullmatch(relation) else None


def _ask_what_is(subject: str, verb: str, rest: str, value: str) -> str | None:
    when, where = bool(_YEAR.search(value)), _PLACES.fullmatch(rest)
    if not rest or _ARTICLE.fullmatch(rest):
        return f"When {verb} {subject}?" if when and value[:1].isdigit() else f"What {verb} {subject}?"
    if when and (dated := re.fullmatch(r"(.*\w)\s+(?:in|on)|(born|released|founded)", rest)):
        return f"When {verb} {subject} {dated[1] or dated[2]}?"
    if where and not when:
        return f"Where {verb} {subject} {where[1]}?"
    if _BY_PEOPLE.fullmatch(rest):
        return f"Who {verb} {subject} {rest}?"
    return f"What {verb} {subject} {rest}?" if _ENDS_OPEN.fullmatch(rest) and count_words(rest) <= 5 else None
