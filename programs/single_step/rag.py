"""Retrieve, then read: the simplest use of a corpus.

Lewis et al., "Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks", NeurIPS 2020, section 2.
https://arxiv.org/abs/2005.11401
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import passages_supporting
from programs.parts.prediction import make_prediction, recall, retrieve_passages
from programs.parts.steps.comparison import MOST_CALLS, compare
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from programs.parts.token_probabilities import text_probability, try_predict_scored
from signatures.reading import REASONING, CompareTwo, ReadAnswer
from signatures.types import Passage, Retriever

DIRECT, COT = "direct", "cot"


class RAG(dspy.Module):
    """Retrieve k passages for the question and read the answer from them.

    The citations are the passages that state the answer, then those that lead to it (`passages_supporting`); an
    unparseable reply is an abstention. With nothing to read (`passages=[]`, or a search that finds nothing) it answers
    as the program `standard`, from memory.

    `details`: `confidence`, the probability that the LM gave to the answer that it read, end included; it ranks answers
    and is not calibrated. There is none where nothing was read, or from an LM that gives no log-probabilities.

    Args:
        retrieve: Ranks passages for the question; None if every question has fixed contexts.
        k: Passages read (standard in the field: 5).
        reader: "direct" answers at once, as in the paper; "cot" states the facts that are needed before it answers.
        compare: Of two things that the question names the words of their passages decide, or the LM states both values
            and the program decides; what neither decides is read like any other question. The paper does not.
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
        answer, stop_reason, confidence = "", DONE, None
        if self.compare and found:
            answer, found = compare(self, question, found, search=passages is None)
        if not answer:
            answer, stop_reason, confidence = self._read(question, found)
        cited = passages_supporting(question, answer, found)
        details = {} if confidence is None else {"confidence": confidence}
        return make_prediction(answer, stop_reason=stop_reason, passages=found, citations=cited, details=details)

    def _read(self, question: str, passages: list[Passage]) -> tuple[str, str, float | None]:
        """Return the answer, why it stopped, and the confidence; with nothing to read, the answer from memory."""
        if passages:
            step, content = try_predict_scored(self.reading, question=question, passages=passages)
        else:
            step, content = recall(question), None
        if step is None:
            return "", UNPARSEABLE, None
        return step.answer, DONE, text_probability(step.answer, content, "answer")

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 1 + self.compare * MOST_CALLS
