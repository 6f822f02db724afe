"""Adaptive-RAG: judge how complex a question is, and answer it without retrieval, with one, or in several steps.

Jeong et al., "Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models through Question Complexity",
NAACL 2024, sections 3.1 (the three approaches) and 3.2 (the classifier), and its public code.
https://arxiv.org/abs/2403.14403

1. Classify the question: simple, moderate or complex.
2. Simple: answer from memory.
3. Moderate: retrieve k passages for the question and read the answer from them.
4. Complex: IRCoT. Write a chain of thought sentence by sentence, each of which is the query for the passages that the
   next one reads, then read the answer from all passages.

Departure: the paper's classifier is a T5 that is trained on the cheapest approach that is right; here the LM is asked.
`optimizers/routes.py` labels training questions as the paper does, and shows them to it.
Departure: as in the public code for Flan-T5, the readers answer at once; for GPT-3.5 those of all routes reason first.
Instructions take the place of the paper's demonstrations, which compiling adds.
"""

import re
from typing import Annotated, Any, Final

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import passages_supporting
from programs.parts.prediction import make_prediction, read_or_recall, retrieve_passages, try_predict, try_predict_text
from programs.parts.steps.interleaving import conclude_thought, interleave
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.multi_step.adaptive_rag import JudgeComplexity
from signatures.multi_step.ircot import ContinueThought
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.types import Passage, Retriever

SIMPLE, MODERATE, COMPLEX = "simple", "moderate", "complex"
ASK, NONE, ONE, SEVERAL = "ask", "none", "one", "several"
ROUTES: Final = {SIMPLE: NONE, MODERATE: ONE, COMPLEX: SEVERAL}  # cheapest first
_NAMED = {
    COMPLEX: re.compile(r"\bcomplex\b|复杂|複雜", re.IGNORECASE),
    MODERATE: re.compile(r"\bmoderate\b|中等|适中|適中", re.IGNORECASE),
    SIMPLE: re.compile(r"\bsimple\b|简单|簡單", re.IGNORECASE),
}


class AdaptiveRAG(dspy.Module):
    """Answer a simple question from memory, a moderate one from one retrieval, a complex one as IRCoT does.

    There are hops on the route of several steps only: those of `ircot`. Without retrieval nothing is read, not even
    fixed contexts. `stop_reason` is that of the route. `details`: `complexity` (None if the question was not
    classified, or nothing was named), `route` ("none", "one" or "several"), and of several steps `thought` and `said`
    (as `ircot`).

    Args:
        retrieve: Ranks passages for the question and for sentences.
        k: Passages of a single retrieval (public code: 15).
        k_several: Passages per retrieval of several steps (public code: 6).
        cap: Passages of several steps in all (IRCoT's paper: 15); fixed contexts are all kept and count towards it.
        max_sentences: Sentences of the thought of several steps (public code of IRCoT: 10).
        route: "ask" classifies the question; "none", "one" and "several" answer every question on that route, each of
            which is an approach that the paper compares with.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "small": {"k": 3, "k_several": 2, "cap": 6, "max_sentences": 5},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 15,
        k_several: Annotated[int, Range(1, 20)] = 6,
        cap: Annotated[int, Range(1, 30)] = 15,
        max_sentences: Annotated[int, Range(1, 20)] = 10,
        route: Annotated[str, Choice(ASK, NONE, ONE, SEVERAL)] = ASK,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        if route == ASK:
            self.routing = dspy.Predict(JudgeComplexity)
        if route in (ASK, NONE):
            self.memory = dspy.Predict(AnswerFromMemory)
        if route in (ASK, SEVERAL):
            self.thinking = dspy.Predict(ContinueThought)
        if route != NONE:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        complexity = self._classify(question) if self.route == ASK else None  # step 1
        # Departure: where no complexity is named, the question counts as moderate; the paper's classifier always
        # decides.
        route = ROUTES[complexity or MODERATE] if self.route == ASK else self.route
        if route == NONE:
            prediction = self._recall(question)  # step 2
        elif route == ONE:
            prediction = self._read(question, passages)  # step 3
        else:
            knobs = {"k": self.k_several, "cap": self.cap, "most": self.max_sentences}
            done = interleave(self, question, **knobs, fixed=passages)
            prediction = conclude_thought(self.reading, question, done)  # step 4
        prediction.details = {"complexity": complexity, "route": route, **prediction.details}
        return prediction

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the classification, and those of several steps."""
        several = self.max_sentences + 1
        return {ASK: 1 + several, SEVERAL: several}.get(self.route, 1)

    def _classify(self, question: str) -> str | None:
        """Return how complex a question is; None if the reply names nothing.

        Departure: of a reply that is not one of the three words, the hardest that it names counts.
        """
        reply, text = try_predict_text(self.routing, question=question)
        if reply is not None:
            return str(reply.complexity)
        return next((complexity for complexity, words in _NAMED.items() if words.search(text)), None)

    def _recall(self, question: str) -> dspy.Prediction:
        step = try_predict(self.memory, question=question)
        return make_prediction(step.answer if step else "", stop_reason=DONE if step else UNPARSEABLE)

    def _read(self, question: str, fixed: list[Passage] | None) -> dspy.Prediction:
        """Answer from one retrieval; from memory where it finds nothing."""
        found = retrieve_passages(self, question, self.k, fixed=fixed)
        step = read_or_recall(self.reading, question, found)
        answer, stop_reason = (step.answer, DONE) if step else ("", UNPARSEABLE)
        return make_prediction(
            answer, stop_reason=stop_reason, passages=found, citations=passages_supporting(question, answer, found)
        )
