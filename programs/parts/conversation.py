"""Follow-up questions of a conversation, made self-contained from the turns before.

Retrieval and programs know one question at a time: "Where was he born?" finds nothing. One LM call rewrites it, and
what it writes is used only if it is a question, with the words of the follow-up, whose names and numbers were all said
before. Weak LMs answer instead, or repeat an earlier question; then the last turn is put in brackets behind the
follow-up, if that names nothing or points back.

Measured on invented follow-ups: `experiments/benchmarks/README.md`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import dspy

from programs.parts.meter import Meter, metered, record
from programs.parts.passages import terms_of
from programs.parts.prediction import drop_from_trace, try_predict
from programs.parts.questions import find_question
from signatures.citation_marks import strip_citations
from signatures.common.errors import one_line
from signatures.conversation import RewriteFollowUp
from signatures.text import CJK
from signatures.text_words import text_words
from signatures.types import Turn

MOST_TURNS = 6  # the last ones; a follow-up seldom needs others
LONGEST_TURN = 600  # characters of a question, and of an answer
MOST_CHARACTERS = 3000  # of all turns together, some 750 tokens
_LONGER = 300  # characters by which a rewritten question may be longer than the follow-up

How: TypeAlias = Literal["rewritten", "unchanged", "with the last turn", "as asked"]

_POINTS_BACK = re.compile(
    r"\b(?:he|him|his|she|hers?|it|they|them|theirs?)\b|\A\W*(?:and|or|but|so|also|(?:what|how) about)\b"
    r"|(?<![其吉])他|[她它]",
    re.IGNORECASE,
)
# In a question that names something, these may point to that ("... France, and how many live there?").
_MAY_POINT_BACK = re.compile(
    r"\b(?:its|this|these|those|there|then|former|latter|same|others?|another|else)\b"
    r"|其(?![他中实余次])|这|那(?!不)|此|(?<!应)该",
    re.IGNORECASE,
)
_WORD = re.compile(rf"[{CJK}]|[^\s{CJK}]+")


@dataclass(frozen=True)
class Understood:
    """The question that is answered instead of a follow-up.

    Args:
        question: What a program is asked.
        how: "rewritten" by the LM; "unchanged", since the LM finds nothing to add; "with the last turn" in brackets,
            because what the LM wrote cannot be used; or "as asked" for the same reason, where the question
            seems to need no turn.
        turns: Earlier turns that were shown to the LM.
    """

    question: str
    how: How
    turns: int


def recent(turns: Sequence[Turn]) -> list[Turn]:
    """Return the last turns, at most `MOST_TURNS` of `MOST_CHARACTERS` together, each text cut and without marks."""
    kept: list[Turn] = []
    room = MOST_CHARACTERS
    for turn in reversed([turn for turn in turns if turn.question.strip()][-MOST_TURNS:]):
        question, answer = one_line(turn.question, LONGEST_TURN), _plain(turn.answer)
        room -= len(question) + len(answer)
        if room < 0:
            break
        kept.append(Turn(question=question, answer=answer))
    return kept[::-1]


def _plain(answer: str) -> str:
    return one_line(strip_citations(answer[: 4 * LONGEST_TURN]), LONGEST_TURN)


def understand(question: str, turns: Sequence[Turn]) -> Understood:
    """Return a question that can be understood without the turns before it; one LM call if there are any.

    A reply that could not be parsed is counted, and is not what `unreadable` of the answer shows.
    """
    turns = recent(turns)
    if not turns:
        return Understood(question, "as asked", 0)
    meter = Meter()
    try:
        with metered(meter):
            reply = try_predict(dspy.Predict(RewriteFollowUp), turns=turns, question=question)
    finally:
        record(**meter.counts())
    drop_from_trace(reply)
    rewritten = usable(reply.rewritten if reply else "", question, turns)
    if rewritten:
        same = text_words(rewritten) == text_words(question)
        return Understood(question if same else rewritten, "unchanged" if same else "rewritten", len(turns))
    if depends_on_context(question) or not _named(question):
        return Understood(with_last_turn(question, turns), "with the last turn", len(turns))
    return Understood(question, "as asked", len(turns))


def with_last_turn(question: str, turns: Sequence[Turn]) -> str:
    """Return the question with the last turn in brackets; in front of it, programs would answer that instead."""
    return f"{question} ({f'{turns[-1].question} {turns[-1].answer}'.strip()})"


def depends_on_context(question: str) -> bool:
    """Return whether a question seems to need what was said before; English and Chinese.

    It has a personal pronoun, begins as only a follow-up does ("And the bridge?"), or names nothing and points back
    otherwise.
    """
    return bool(_POINTS_BACK.search(question) or (not _named(question) and _MAY_POINT_BACK.search(question)))


def usable(text: str, question: str, turns: Sequence[Turn]) -> str:
    """Return the question in what an LM wrote, if it may stand for the follow-up; else "".

    It is no earlier question, is not much longer than the follow-up, has at least half of its words that state
    something, and no name or number that was not said. Repeated as it is, it must not point back.
    """
    found = find_question(text)
    words = text_words(found)
    if words == text_words(question):
        return "" if depends_on_context(question) else found
    if len(found) > len(question) + _LONGER or any(words == text_words(turn.question) for turn in turns):
        return ""
    wanted = terms_of(question)
    if 2 * len(wanted & terms_of(found)) < len(wanted):
        return ""
    said = terms_of(" ".join([question, *(f"{turn.question} {turn.answer}" for turn in turns)]))
    return found if _named(found) <= said else ""


def _named(text: str) -> set[str]:
    """Return the terms of words with a capital letter, except the first, and of numbers."""
    first, *rest = (word.lstrip("\"'([¿¡“‘«") for word in _WORD.findall(text) or [""])
    names = [word for word in rest if word[:1].isupper()] + [word for word in (first, *rest) if word[:1].isdigit()]
    return {term for name in names for term in terms_of(name)}
