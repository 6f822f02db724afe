"""A chain of queries with answers, as an LM writes it, each step as "query -> answer", and its final content."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import dspy

from programs.parts.longform import gives_answer
from programs.parts.ranking import is_no_item
from programs.parts.reasoning.thought import declines, stated_answer
from signatures.citation_marks import strip_citations
from signatures.text_words import contains_words

_ARROW = re.compile(r"\s*(?:[-–—=]+>|[→⇒➔])\s*")
_QUESTION = re.compile(r"(?P<query>.*?[?？])\s*(?P<answer>.*)", re.DOTALL)
_LABEL = re.compile(
    r"\A[\s\[(*_]*(?:(?:unsolved\s+)?(?:query|step|question|q|查询|步骤|问题)\s*\d*[\])*_]*\s*[:：]|\d+\s*[.)、．）](?!\d))[\s*_]*",
    re.IGNORECASE,
)
_ANSWER_LABEL = re.compile(r"\A[\s\[(*_]*(?:answer|a|答案|回答)\s*\d*[\])*_]*\s*[:：][\s*_]*", re.IGNORECASE)


class Step(NamedTuple):
    """One step of a chain.

    Args:
        query: What is asked.
        answer: What the LM answers; empty if it does not know.
    """

    query: str
    answer: str = ""

    def __str__(self) -> str:
        return f"{self.query} -> {self.answer or 'unknown'}"


class Branch(NamedTuple):
    """A chain that an LM wrote, and the feedback that followed: an entry of a transcript.

    Args:
        steps: Its steps, at least one.
        content: Its final content; empty if it has none.
        reply: It was read from; None if there is none.
        results: The feedback, as lines of the transcript.
    """

    steps: list[Step]
    content: str = ""
    reply: dspy.Prediction | None = None
    results: tuple[str, ...] = ()

    def said(self, number: int) -> list[str]:
        """Return the lines that the LM wrote."""
        lines = [f"Chain {number}, step {place}: {step}" for place, step in enumerate(self.steps, start=1)]
        return [*lines, *([f"Chain {number}, final content: {self.content}"] if self.content else [])]

    def stated(self) -> str:
        """Return the answer that the final content states, or else all of it; without one, that of the last step."""
        text = strip_citations(self.content)
        stated = stated_answer(text)
        return (text if stated is None else stated) or self.steps[-1].answer


def branch_of(question: str, reply: dspy.Prediction) -> Branch:
    """Return the chain of a reply with `chain` and `response`; a content that declines is none.

    Of a chain without steps the question itself is the only query, with the answer that the content states.
    """
    plain = strip_citations(reply.response)
    content = "" if declines(plain) else reply.response.strip()
    steps = parse_chain(reply.chain) or [Step(question, (content and stated_answer(plain)) or "")]
    return Branch(steps, content, reply)


def parse_chain(texts: Iterable[str]) -> list[Step]:
    """Return the steps of a chain in order, without labels such as "Query 1:" and what is no step ("None", a heading).

    A text without an arrow is a query up to its first question mark, and behind that its answer. "unknown", a refusal
    and nothing at all are no answer.
    """
    return [step for step in map(_step, texts) if not is_no_item(step.query)]


def agree(said: str, told: str) -> bool:
    """Return whether two answers are the same.

    Departure: in the paper the answer that was read must stand in the LM's, which is a sentence; between short answers
    it may be the other way round. Its measure for long answers (ROUGE) is not needed.
    """
    return contains_words(said, told) or contains_words(told, said)


def _step(text: str) -> Step:
    text = _LABEL.sub("", text.strip())
    query, *rest = _ARROW.split(text, maxsplit=1)
    if not rest and (asked := _QUESTION.fullmatch(text)):
        query, rest = asked["query"], [asked["answer"]]
    answer = _ANSWER_LABEL.sub("", rest[0]).strip() if rest else ""
    return Step(query.strip(), answer if gives_answer(answer) else "")
