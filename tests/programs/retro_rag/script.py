"""A scripted LM and a retriever for the tests of RetroRAG; the fixture `script` is this module."""

import itertools
import re

import dspy

from programs.lms.calls.metered import metered_lm
from signatures.types import Passage
from tests.programs.fakes import Fake

KINDS = {
    "Name the key entities": "naming",
    "Decide whether the evidence contributes": "weighing",
    "Score each piece of evidence": "together",
    "Answer the question with the passages and the inferences": "answering",
    "Answer the question from what you know": "recalling",
    "Decide whether both answers": "agreement",
    "Decide whether the reply commits": "assessing",
    "State what follows from the passages": "inferring",
    "State all that follows from the passages": "inferring",
    "Decide whether the claim, on top of": "relevance",
    "Decide whether the passages state the claim": "attribution",
    "Write the search query": "searching",
}


JUDGEMENTS = {"weighing", "agreement", "assessing", "relevance", "attribution"}
LAST = "answer that\nis most likely"  # of the prompt of the last round
REPLIES_OF = {"concluding": "answering", "recalling": "answering", "recalling_directly": "monitoring"}


def kind_of(system: str) -> str:
    (kind,) = {kind for start, kind in KINDS.items() if system.startswith(start)}
    if kind == "recalling":
        return kind if "reasoning" in system else "recalling_directly"
    if kind == "answering":
        return "monitoring" if "reasoning" not in system else "concluding" if LAST in system else kind
    return kind


def field(user: str, name: str) -> str:
    """Return what a prompt shows under a header."""
    return re.search(rf"\[\[ ## {name} ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\n[A-Z][^\n]*\Z|\Z)", user, re.DOTALL)[1].strip()


def pieces_of(user: str) -> list[str]:
    """Return the pieces of evidence that a prompt shows together."""
    return [line.partition("] ")[2] for line in field(user, "pieces").splitlines()]


class Story:
    """Replies by kind of prompt: a value, a function of the prompt, or a list of these, one per call.

    A judgement is a number, P(yes); "?" is an unparseable reply. Answers in the last round and from memory continue the
    replies of "answering" and "monitoring". `offered` contains the kinds of prompts that offered "unknown".
    """

    def __init__(self, **replies):
        self.replies = {
            "naming": ["Quillon"],
            "weighing": 0.5,
            "together": lambda user: [0.5] * len(pieces_of(user)),
            "answering": "Ansa Merrow",
            "monitoring": "Ansa Merrow",
            "agreement": 0.0,
            "assessing": 1.0,
            "inferring": [[]],
            "relevance": 1.0,
            "attribution": 1.0,
            "searching": "harbour of Quillon",
            **replies,
        }
        self.asked: list[tuple[str, str]] = []
        self.offered: set[str] = set()
        self.turn = dict.fromkeys(self.replies, 0)

    def __call__(self, system: str, user: str):
        kind = kind_of(system)
        self.asked.append((kind, user))
        if "unknown" in system:
            self.offered.add(kind)
        kind = REPLIES_OF.get(kind, kind)
        value = self.replies[kind]
        if isinstance(value, list) and kind != "naming":
            value = value[min(self.turn[kind], len(value) - 1)]
            self.turn[kind] += 1
        value = value(user) if callable(value) else value
        if value == "?":
            return "?"
        if kind in JUDGEMENTS:
            return {"probability": value}
        name = {"naming": "entities", "inferring": "inferences", "searching": "query", "together": "scores"}.get(
            kind, "answer"
        )
        return {"reasoning": f"because of {value}", name: value}

    def prompts(self, *kinds: str) -> list[str]:
        return [user for asked, user in self.asked if asked in kinds]

    def count(self, kind: str) -> int:
        return len(self.prompts(kind))


class Batches(Fake):
    """Finds other passages each time it is asked."""

    def find(self, query: str, k: int) -> list[Passage]:
        number = len(self.asked)
        return [Passage(id=f"r{number}.{rank}", text=f"Passage {rank} of search {number}.") for rank in range(k)]


def by_text(**scores: float):
    """Return P(yes) by a word that stands in the evidence, else 0.5."""

    def score(user: str) -> float:
        shown = field(user, "evidence") if "## evidence ##" in user else field(user, "claim")
        return next((value for word, value in scores.items() if word in shown), 0.5)

    return score


def kept_of(hop) -> list[str]:
    return [candidate.passage_id or candidate.text for candidate in hop.candidates if candidate.kept]


class Obedient(Story):
    """Answers "unknown" wherever the prompt offers it, and else from memory."""

    def __call__(self, system: str, user: str):
        reply = super().__call__(system, user)
        return {**reply, "answer": "unknown"} if "unknown" in system else reply


def worst(claims: int = 20) -> dict:
    """Return replies with which nothing is ever accepted and everything is always new."""
    count = itertools.count()
    return {
        "answering": lambda user: f"answer number {next(count)}",
        "inferring": lambda user: [f"Claim {next(count)} is so." for _ in range(claims)],
        "searching": lambda user: f"search number {next(count)}",
    }


def on_a_meter(engine):
    """Return a context in which calls to a scripted engine are counted, and samples distinguished by seeds."""
    return dspy.context(lm=metered_lm("scripted/metered", engine=engine, cache=False, temperature=0.0))


def kinds_asked(story: Story) -> set[str]:
    return {kind for kind, _ in story.asked}
