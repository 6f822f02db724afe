"""Retrieve, then read: the simplest use of a corpus.

Lewis et al., "Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks", NeurIPS 2020, section 2.
https://arxiv.org/abs/2005.11401
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import deduplicate, passages_supporting
from programs.parts.prediction import (
    DONE,
    UNPARSEABLE,
    drop_from_trace,
    make_prediction,
    read_or_recall,
    retrieve_passages,
    retrieve_rankings,
    try_predict,
)
from programs.parts.reasoning.comparing import about_owners, compares_two, decide, with_names_of
from signatures.reading import REASONING, CompareTwo, ReadAnswer
from signatures.text_words import same_words
from signatures.types import Passage, Retriever

DIRECT, COT = "direct", "cot"


class RAG(dspy.Module):
    """Retrieve k passages for the question and read the answer from them.

    The citations are the passages that state the answer, then those that lead to it (`passages_supporting`); an
    unparseable reply is an abstention. With nothing to read (`passages=[]`, or a search that finds nothing) it answers
    as the program `standard`, from memory.

    Args:
        retrieve: Ranks passages for the question; None if every question has fixed contexts.
        k: Passages read (standard in the field: 5).
        reader: "direct" answers at once, as in the paper; "cot" states the facts that are needed before it answers.
        compare: The LM states both values of a comparison, and the program decides; what they decide nothing about is
            read like any other question. The paper does not.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "small": {"k": 3, "compare": True}}

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        reader: Annotated[str, Choice(DIRECT, COT)] = DIRECT,
        compare: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.reading = dspy.Predict(ReadAnswer) if reader == DIRECT else dspy.ChainOfThought(ReadAnswer, REASONING)
        if compare:
            self.comparing = dspy.Predict(CompareTwo)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer read from the retrieved passages, or from fixed `passages`."""
        found = retrieve_passages(self, question, self.k, fixed=passages)
        # Departure: as in all later work, the LM reads all passages in one prompt instead of marginalising over them.
        answer, stop_reason = "", DONE
        if self.compare and found and compares_two(question):
            answer, found = self._compare(question, found, search=passages is None)
        if not answer:
            step = read_or_recall(self.reading, question, found)
            answer, stop_reason = (step.answer, DONE) if step else ("", UNPARSEABLE)
        cited = passages_supporting(question, answer, found)
        return make_prediction(answer, stop_reason=stop_reason, passages=found, citations=cited)

    def _compare(self, question: str, passages: list[Passage], *, search: bool) -> tuple[str, list[Passage]]:
        """Return the answer of a comparison and what was read; no answer if the values decide nothing.

        Where the passages name the owner of a value, such as a film's director, and not the value, the owners are
        searched for, and compared in place of what they belong to.
        """
        reply = try_predict(self.comparing, question=question, passages=passages)
        if reply is None:
            return "", passages
        decided, told = decide(question, reply), str(reply.answer)
        owners = decided.owners if search else ()
        found = deduplicate(hit for ranking in retrieve_rankings(self, owners, 1) for hit in ranking) if owners else []
        if found:
            again = try_predict(self.comparing, question=about_owners(question, decided), passages=found)
            if again is not None:
                decided, told = decide(question, with_names_of(decided, again)), ""
                drop_from_trace(again)
                passages = deduplicate([*passages, *found]) if decided.answer else passages
        if same_words(decided.answer) != same_words(told):  # it answers otherwise, and is no demonstration
            drop_from_trace(reply)
        return decided.answer, passages

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 3 if self.compare else 1
