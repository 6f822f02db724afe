"""A chain of queries with answers, as an LM writes it, each step as "query -> answer", and its final content."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import dspy

from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item, terms_of
from programs.parts.reasoning.thought import stated_answer
from signatures.citation_marks import strip_citations
from signatures.text import CJK
from signatures.text_words import contains_words, same_words, text_words

_ARROW = re.compile(r"\s*(?:[-–—=]+>|[→⇒➔])\s*")
_QUESTION = re.compile(r"(?P<query>.*?[?？])\s*(?P<answer>.*)", re.DOTALL)
_LABEL = re.compile(
    r"\A[\s\[(*_]*(?:(?:unsolved\s+)?(?:query|step|question|q|查询|步骤|问题)\s*\d*[\])*_]*\s*[:：]|\d+\s*[.)、．）](?!\d))[\s*_]*",
    re.IGNORECASE,
)
_ANSWER_LABEL = re.compile(r"\A[\s\[(*_]*(?:answer|a|答案|回答)\s*\d*[\])*_]*\s*[:：][\s*_]*", re.IGNORECASE)
_CONTENT_LABEL = re.compile(
    r"\A[\s\[(*_]*(?:final (?:content|answer)|so the answer is|最[终終](?:内容|答案))[\])*_]*\s*[:：]", re.IGNORECASE
)
_OPEN = re.compile(r"[\W_]*(?:unknown|unsolved(?: query)?|未知|不知道)\s*(?:[^\w\s].*)?", re.IGNORECASE | re.DOTALL)
_HAN = re.compile(f"[{CJK}]")
_ASKED = {"whom": "who", "whose": "who", "which": "what"} | {
    word: word for word in ("who", "what", "when", "where", "why", "how")
}


class ChainStep(NamedTuple):
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

    steps: list[ChainStep]
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
    """Return the chain of a reply with `chain` and `response`; a content that declines does not count.

    Of a chain without steps the question itself is the only query, with the answer that the content states.
    """
    plain = strip_citations(reply.response)
    stated = stated_answer(plain) or ""
    content = "" if _is_open(plain) or (stated and _is_open(stated)) else reply.response.strip()
    steps = parse_chain(reply.chain) or [ChainStep(question, stated if content else "")]
    return Branch(steps, content, reply)


def parse_chain(texts: Iterable[str]) -> list[ChainStep]:
    """Return the steps of a chain in order, without labels such as "Query 1:" and what is no step ("None", a heading).

    A text without an arrow is a query up to its first question mark, and behind that its answer. "unknown", a refusal,
    "None" and nothing at all are no answer. As in the paper's format, an answer may be a separate text, and an open
    query be repeated as an unsolved one. The final content is no step.
    """
    steps: list[ChainStep] = []
    for text in texts:
        if label := _ANSWER_LABEL.match(text):
            if steps and not steps[-1].answer:
                steps[-1] = steps[-1]._replace(answer=_given(text[label.end() :]))
        elif not _CONTENT_LABEL.match(text) and not is_no_item((step := _step(text)).query):
            if steps and not steps[-1].answer and same_words(steps[-1].query) == same_words(step.query):
                steps.pop()
            steps.append(step)
    return steps


def _step(text: str) -> ChainStep:
    text = _LABEL.sub("", text.strip())
    query, *rest = _ARROW.split(text, maxsplit=1)
    if not rest and (asked := _QUESTION.fullmatch(text)):
        query, rest = asked["query"], [asked["answer"]]
    return ChainStep(query.strip(), _given(_ANSWER_LABEL.sub("", rest[0])) if rest else "")


def _given(answer: str) -> str:
    return "" if _is_open(answer) else answer.strip()


def _is_open(text: str) -> bool:
    """Return whether an answer or a final content declines, as "unknown (to be searched for)" or "(empty)"."""
    return not gives_answer(text) or is_no_item(same_words(text)) or _OPEN.fullmatch(text) is not None


def may_ask_the_same(query: str, other: str) -> bool:
    """Return whether two queries have the same question words, and one of them all content words of the other.

    "When was she born?" and "Where was she born?" differ in nothing else; to a similarity they are nearly the same. In
    Chinese all characters must be the same: one more may be another hop ("法国的首都", "法国的首都的市长").
    """
    asked = [{_ASKED[word] for word in text_words(text) if word in _ASKED} for text in (query, other)]
    one, two = terms_of(query), terms_of(other)
    return asked[0] == asked[1] and (one <= two or two <= one) and not any(map(_HAN.match, one ^ two))


def agree(said: str, told: str) -> bool:
    """Return whether two answers are the same.

    Departure: in the paper the answer that was read must occur in the LM's, which is a sentence; between short answers
    it may be the other way round. Its measure for long answers (ROUGE) is not needed.
    """
    return contains_words(said, told) or contains_words(told, said)
