"""Wrong answers as a slip of memory would give them: right ones of other questions that ask for the same kind of thing.

A student whose own drafts are people for "who" and years for "when" learns nothing from drafts of another kind: those
can be told from the right answer without any passage.
"""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from corpora.questions import Question
from signatures.text_words import contains_words, same_words

UNKNOWN = "unknown"
_STEM = 4  # letters
_TRIES = 20  # draws before all answers are compared with the right one
_OPPOSITES = {"yes": "no", "no": "yes"}
# What is asked for, from the first interrogative: "who", "how many", "which country", "what is the
# nationality", "what is Ann's nationality".
_KIND = re.compile(
    r"\b(?:(?:what|which)\s+(?:is|are|was|were)\s+.*'s\s+(\w+)|(who|whom|whose|when|where)\b|how\s+(\w+)|(?:what|which)\s+(?:(?:is|are|was|were)\s+)?(?:the\s+)?(\w+))",
    re.IGNORECASE,
)


class _Answer(NamedTuple):
    """An answer: what its question asks for, its text, the text as `same_words` and whether it has a digit."""

    kind: str
    text: str
    same: str
    digits: bool


class WrongAnswers:
    """Answers of many questions, by what these ask for.

    Args:
        asked: Questions with their answers.
        given: Question -> wrong answers that somebody gave to it; they are drawn before any others.
    """

    def __init__(self, asked: Iterable[tuple[str, str]], given: Mapping[str, Sequence[str]] | None = None):
        self._given = given or {}
        answers = sorted({(kind_of(question), answer.strip()) for question, answer in asked if answer.strip()})
        self._answers = [_Answer(kind, text, same_words(text), _has_digit(text)) for kind, text in answers]
        self._like: dict[tuple[str, bool], list[_Answer]] = {}
        self._digits: dict[bool, list[_Answer]] = {}
        for answer in self._answers:
            self._like.setdefault((answer.kind, answer.digits), []).append(answer)
            self._digits.setdefault(answer.digits, []).append(answer)

    @classmethod
    def of(cls, questions: Iterable[Question]) -> Self:
        """Return the main answers of the questions and of their sub-questions, and their `wrong_answers`."""
        questions = list(questions)
        given = {one.question: stated for one in questions if (stated := (one.model_extra or {}).get("wrong_answers"))}
        asked: list[tuple[str, str]] = []
        for question in questions:
            asked += [(question.question, answer) for answer in question.answers[:1]]
            asked += [(part.question, part.answer) for part in question.sub_questions if part.answer]
        return cls(asked, given)

    def __len__(self) -> int:
        """Return the number of answers; one that is given to two kinds of questions counts twice."""
        return len(self._answers)

    def draw(self, question: str, right: str, rng: random.Random) -> str:
        """Return a wrong answer to a question; "unknown" if there is none.

        It is one that was given, else the opposite of yes or no, else an answer of the same kind of question, else one
        with digits if the right one has any, else any other.
        """
        if question in self._given:
            return rng.choice(list(self._given[question]))
        same = same_words(right)
        if same in _OPPOSITES:
            return _OPPOSITES[same]
        kind, digits = kind_of(question), _has_digit(right)
        for among in (self._like.get((kind, digits), []), self._digits.get(digits, []), self._answers):
            if found := _other(among, same, rng):
                return found.text
        return UNKNOWN


def _other(answers: "Sequence[_Answer]", right: str, rng: random.Random) -> "_Answer | None":
    """Return one of the answers at random that cannot mean the right one (as `same_words`); None if all may."""
    for _ in range(_TRIES if answers else 0):
        answer = rng.choice(answers)
        if not _may_agree(answer.same, right):
            return answer
    others = [answer for answer in answers if not _may_agree(answer.same, right)]
    return rng.choice(others) if others else None


def kind_of(question: str) -> str:
    """Return what a question asks for: its first interrogative, or the noun after "what", "which" or "how"; or ""."""
    match = _KIND.search(question)
    return "" if match is None else next(part for part in match.groups() if part).lower()


def _may_agree(other: str, right: str) -> bool:
    """Return whether an answer may mean the right one (America, American), or is yes or no; both as `same_words`."""
    if other in _OPPOSITES or contains_words(other, right) or contains_words(right, other):
        return True
    return not _has_digit(right) and other[:_STEM] == right[:_STEM]


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))
