"""Key-fact candidates for one question: derived from question, references and answer by an LM, checked by an oracle.

"How Credible Is an Answer From Retrieval-Augmented LLMs? Investigation and Improvement With Multi-Hop QA", section 3.

Departure: in the paper, annotators remove bad facts; here two automatic checks flag them first and remove nothing,
since the oracle's accuracy is modest. Reviewers then judge the facts (`experiments/annotation/review`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from programs.parts.predict import try_predict
from signatures.keyfacts import ExplainAnswer, ExtractKeyFacts
from signatures.text import normalize_answer
from signatures.types import Passage

MIN_FACTS, MAX_FACTS = 2, 4

Entails = Callable[[Sequence[tuple[str, str]]], list[float]]
"""(premise, hypothesis) pairs -> probability of entailment of each pair."""


@dataclass(frozen=True)
class CheckedFact:
    """A key fact with the results of the checks.

    Args:
        text: The fact, one sentence.
        entailed: Probability in [0, 1] that the references entail it.
        supported: Whether that probability reaches the oracle's threshold.
        duplicate_of: Index (from 0) of the earlier fact that it repeats; None if there is none.
    """

    text: str
    entailed: float
    supported: bool
    duplicate_of: int | None = None

    @property
    def sound(self) -> bool:
        """Whether it passes both checks."""
        return self.supported and self.duplicate_of is None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class KeyFacts:
    """The key facts of one question.

    Args:
        steps: The reasoning the facts were taken from; empty if the reply was unparseable.
        facts: At most four, checked.
        surplus: Number of facts beyond four, which are dropped.
    """

    steps: list[str]
    facts: list[CheckedFact]
    surplus: int = 0

    @property
    def too_few(self) -> bool:
        """Whether there are fewer than two facts, so that reviewers have to write more."""
        return len(self.facts) < MIN_FACTS


def check_facts(
    facts: Sequence[str], references: Sequence[Passage], entails: Entails, *, threshold: float = 0.5
) -> list[CheckedFact]:
    """Return the facts with the results of both checks, with one call of the oracle.

    A fact repeats an earlier one if they entail each other or are equal after normalising. It is supported if all
    references together, with their titles, entail it.

    Args:
        facts: Sentences.
        references: The passages the answer was derived from; if empty, no fact is supported.
        entails: The oracle.
        threshold: Lowest probability that counts as entailed, in [0, 1].
    """
    premise = "\n".join(f"{passage.title}: {passage.text}" if passage.title else passage.text for passage in references)
    pairs = [(later, earlier) for later in range(len(facts)) for earlier in range(later)]
    to_judge = [(premise, fact) for fact in facts]
    to_judge += [
        (facts[left], facts[right]) for later, earlier in pairs for left, right in ((later, earlier), (earlier, later))
    ]
    scores = entails(to_judge) if to_judge else []
    support, mutual = scores[: len(facts)], scores[len(facts) :]
    duplicate_of: dict[int, int] = {}
    for number, (later, earlier) in enumerate(pairs):
        same = normalize_answer(facts[later]) == normalize_answer(facts[earlier])
        if same or min(mutual[2 * number : 2 * number + 2]) >= threshold:
            duplicate_of.setdefault(later, earlier)
    return [
        CheckedFact(fact, float(score), bool(references) and score >= threshold, duplicate_of.get(number))
        for number, (fact, score) in enumerate(zip(facts, support, strict=True))
    ]


class KeyFactsBuilder(dspy.Module):
    """Explains a known answer step by step and extracts two to four key facts from the steps; two LM calls.

    Args:
        entails: The oracle of the checks.
        threshold: Lowest probability that counts as entailed, in [0, 1].
    """

    def __init__(self, entails: Entails, *, threshold: float = 0.5):
        super().__init__()
        self.entails = entails
        self.threshold = threshold
        self.explaining = dspy.Predict(ExplainAnswer)
        self.extracting = dspy.Predict(ExtractKeyFacts)

    def forward(self, question: str, passages: Sequence[Passage], answer: str) -> KeyFacts:
        """Return checked key facts; no facts if a reply is unparseable, which the meter counts."""
        explained = try_predict(self.explaining, passages=list(passages), question=question, answer=answer)
        steps = [step.strip() for step in explained.steps if step.strip()] if explained else []
        if not steps:
            return KeyFacts([], [])
        extracted = try_predict(self.extracting, question=question, answer=answer, steps=steps)
        candidates = [fact.strip() for fact in extracted.key_facts if fact.strip()] if extracted else []
        facts = check_facts(_repeats_last(candidates)[:MAX_FACTS], passages, self.entails, threshold=self.threshold)
        return KeyFacts(steps, facts, max(0, len(candidates) - MAX_FACTS))

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 2


def _repeats_last(facts: Sequence[str]) -> list[str]:
    """Return the facts with those that repeat an earlier one verbatim at the end, so that these are cut first."""
    seen: set[str] = set()
    new: list[str] = []
    repeats: list[str] = []
    for fact in facts:
        words = normalize_answer(fact)
        (repeats if words in seen else new).append(fact)
        seen.add(words)
    return new + repeats
