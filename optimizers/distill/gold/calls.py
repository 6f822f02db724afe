"""One call of a predictor with the reply that gold annotations give, and what makes such calls."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from corpora.passages import PassageRecord
from corpora.questions import Question
from optimizers.distill.gold.annotation import Annotation, annotate
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from signatures.types import Passage


@dataclass(frozen=True)
class GoldCall:
    """The inputs of a predictor and the outputs to learn.

    Args:
        skill: What it teaches; mixtures are given by skill.
        inputs: Value of every input field.
        outputs: Value of every output field.
    """

    skill: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@dataclass
class Material:
    """What the calls of one question are made from.

    Args:
        contexts: Passages for prompts.
        rng: Every random choice.
        wrong: Answers of the source's questions, from which wrong drafts are drawn.
        sizes: Numbers of passages in a prompt, of which one is drawn for each.
        cut: Share of the calls whose passages are cut to some sentences, in [0, 1].
    """

    contexts: Contexts
    rng: random.Random
    wrong: WrongAnswers
    sizes: Sequence[int] = field(default=(1, 2, 3, 4, 5))
    cut: float = 0.0
    _annotations: dict[str, Annotation | None] = field(default_factory=dict)

    def annotation(self, question: Question, corpus: Mapping[str, PassageRecord]) -> Annotation | None:
        """Return `annotate(question, corpus)`, looked up once for all predictors."""
        if question.id not in self._annotations:
            self._annotations[question.id] = annotate(question, corpus)
        return self._annotations[question.id]

    def size(self) -> int:
        """Return a number of passages."""
        return self.rng.choice(self.sizes)

    def reading(self, question: str, gold: Sequence[Passage]) -> dict[str, Any]:
        """Return the inputs of a reader: a question, and gold passages among distractors."""
        return {"passages": self.contexts.mixed(question, gold, self.size(), self.rng), "question": question}

    def mixed_without_rest(self, gold: Annotation, shown: Sequence[Passage], size: int) -> list[Passage]:
        """Return some of the gold passages among distractors, without the other gold passages."""
        ids = {passage.id for passage in shown}
        missing = [passage for passage in gold.gold if passage.id not in ids]
        return self.contexts.mixed(gold.asked, shown, size, self.rng, missing=missing)

    def lacking(self, gold: Annotation, query: str, answer: str, size: int) -> list[Passage]:
        """Return passages that a query finds: none is gold, or has the answer of the question or step it asks for."""
        answers = {answer} if answer != gold.answer else {answer, *gold.question.answers}
        return self.contexts.without(query, gold.gold, answers, size, self.rng)

    def gold_and_other(self, gold: Annotation) -> Iterator[tuple[Passage, bool]]:
        """Yield one gold passage and one that distracts, if any does, each with whether it is gold."""
        others = self.lacking(gold, gold.asked, gold.answer, 3)
        for passages, is_gold in ((gold.gold, True), (others, False)):
            if passages:
                yield self.rng.choice(list(passages)), is_gold

    def wrong_answer(self, question: str, right: str) -> str:
        """Return a wrong answer to a question: one that was given, else one of the kind that it asks for."""
        return self.wrong.draw(question, right, self.rng)


class Maker(Protocol):
    """Yields the calls of one predictor for one question."""

    def __call__(self, gold: Annotation, material: Material) -> Iterator[GoldCall]:
        """Yield any number of calls, none if the question lacks what they need."""
