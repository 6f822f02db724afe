"""Builds key facts: what a long answer has to say, derived from question, references and answer, and checked.

"How Credible Is an Answer From Retrieval-Augmented LLMs? Investigation and Improvement With Multi-Hop QA", section 3.

Departure: the paper's people remove bad facts; here two automatic checks come first, which flag and remove nothing, so
that people see what an oracle of modest worth thought. `verihop review keyfacts` is their tool.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from programs.parts.predict import try_predict
from signatures.keyfacts import ExplainAnswer, ExtractKeyFacts
from signatures.text import normalize_answer
from signatures.types import Passage

FEWEST, MOST = 2, 4

Entails = Callable[[Sequence[tuple[str, str]]], list[float]]
"""(premise, hypothesis) pairs -> probability of entailment of each."""


@dataclass(frozen=True)
class CheckedFact:
    """A key fact with what the checks say.

    Args:
        text: The fact, one sentence.
        entailed: Probability in [0, 1] that the references entail it.
        supported: Whether that reaches the oracle's threshold.
        duplicate_of: Number (from 0) of the earlier fact that says the same; None when there is none.
    """

    text: str
    entailed: float
    supported: bool
    duplicate_of: int | None = None

    @property
    def sound(self) -> bool:
        """Whether both checks let it pass."""
        return self.supported and self.duplicate_of is None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class KeyFacts:
    """What was built for one question.

    Args:
        steps: The reasoning the facts were taken from; [] when it could not be read.
        facts: At most four, checked.
        surplus: Facts beyond four that were left out.
    """

    steps: list[str]
    facts: list[CheckedFact]
    surplus: int = 0

    @property
    def too_few(self) -> bool:
        """Whether fewer than two facts were found: people have to write the rest."""
        return len(self.facts) < FEWEST


def check_facts(
    facts: Sequence[str], references: Sequence[Passage], entails: Entails, *, threshold: float = 0.5
) -> list[CheckedFact]:
    """Return the facts with the checks' findings, in one batch of the oracle.

    A fact repeats an earlier one when both entail each other, or when they are equal after normalising. Support is
    asked of all references together, with their titles.

    Args:
        facts: Sentences.
        references: What the answer was derived from; without any, nothing is supported.
        entails: The oracle.
        threshold: Probability from which something counts as entailed, in [0, 1].
    """
    premise = "\n".join(f"{passage.title}: {passage.text}" if passage.title else passage.text for passage in references)
    pairs = [(later, earlier) for later in range(len(facts)) for earlier in range(later)]
    asked = [(premise, fact) for fact in facts]
    asked += [
        (facts[one], facts[other]) for later, earlier in pairs for one, other in ((later, earlier), (earlier, later))
    ]
    scores = entails(asked) if asked else []
    support, mutual = scores[: len(facts)], scores[len(facts) :]
    said_before: dict[int, int] = {}
    for number, (later, earlier) in enumerate(pairs):
        same = normalize_answer(facts[later]) == normalize_answer(facts[earlier])
        if same or min(mutual[2 * number : 2 * number + 2]) >= threshold:
            said_before.setdefault(later, earlier)
    return [
        CheckedFact(fact, float(score), bool(references) and score >= threshold, said_before.get(number))
        for number, (fact, score) in enumerate(zip(facts, support, strict=True))
    ]


class KeyFactsBuilder(dspy.Module):
    """Explains a known answer step by step and takes two to four key facts from the steps; two LM calls.

    Args:
        entails: The oracle of the checks.
        threshold: Probability from which something counts as entailed, in [0, 1].
    """

    def __init__(self, entails: Entails, *, threshold: float = 0.5):
        super().__init__()
        self.entails = entails
        self.threshold = threshold
        self.explaining = dspy.Predict(ExplainAnswer)
        self.extracting = dspy.Predict(ExtractKeyFacts)

    def forward(self, question: str, passages: Sequence[Passage], answer: str) -> KeyFacts:
        """Return checked key facts; none when a reply cannot be read, which the meter counts."""
        explained = try_predict(self.explaining, passages=list(passages), question=question, answer=answer)
        steps = [step.strip() for step in explained.steps if step.strip()] if explained else []
        if not steps:
            return KeyFacts([], [])
        extracted = try_predict(self.extracting, question=question, answer=answer, steps=steps)
        found = [fact.strip() for fact in extracted.key_facts if fact.strip()] if extracted else []
        facts = check_facts(_new_first(found)[:MOST], passages, self.entails, threshold=self.threshold)
        return KeyFacts(steps, facts, max(0, len(found) - MOST))

    def max_calls(self) -> int:
        """Return the most LM calls one question can take."""
        return 2


def _new_first(facts: Sequence[str]) -> list[str]:
    """Return the facts with those behind that repeat an earlier one by its words, so that these are cut first."""
    said: set[str] = set()
    new: list[str] = []
    again: list[str] = []
    for fact in facts:
        words = normalize_answer(fact)
        (again if words in said else new).append(fact)
        said.add(words)
    return new + again
