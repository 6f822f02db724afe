"""Retrieve, then read: the simplest use of a corpus.

Lewis et al., "Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks", NeurIPS 2020, section 2.
https://arxiv.org/abs/2005.11401
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import passages_stating
from programs.parts.prediction import DONE, UNPARSEABLE, make_prediction, read_or_recall, retrieve_passages, try_predict
from programs.parts.reasoning.comparing import compares_two, decided_answer
from signatures.reading import REASONING, CompareTwo, ReadAnswer
from signatures.types import Passage, Retriever

DIRECT, COT = "direct", "cot"


class RAG(dspy.Module):
    """Retrieve k passages for the question and read the answer from them.

    The citations are the passages that state the answer; an unparseable reply is an abstention. With nothing to read
    (`passages=[]`, or a search that finds nothing) it answers as the program `standard`, from memory.

    Args:
        retrieve: Ranks passages for the question; None if every question has fixed contexts.
        k: Passages read (standard in the field: 5).
        reader: "direct" answers at once, as in the paper; "cot" states the facts that are needed before it answers.
        compare: Of a question that compares two things the LM states both values, and their order decides. The paper
            does not.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "small": {"k": 3}}

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
        answer = self._answer(question, found)
        stop_reason = UNPARSEABLE if answer is None else DONE
        answer = answer or ""
        cited = passages_stating(answer, found)
        return make_prediction(answer, stop_reason=stop_reason, passages=found, citations=cited)

    def _answer(self, question: str, passages: list[Passage]) -> str | None:
        """Return the answer; None if the reply is unparseable."""
        if self.compare and passages and compares_two(question):
            compared = try_predict(self.comparing, question=question, passages=passages)
            if compared is not None:
                return decided_answer(compared)
        step = read_or_recall(self.reading, question, passages)
        return None if step is None else str(step.answer)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 2 if self.compare else 1
