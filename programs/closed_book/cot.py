"""Chain of thought, closed-book: reason first, then answer.

Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models", NeurIPS 2022, section 2.
https://arxiv.org/abs/2201.11903
"""

from typing import Any

import dspy

from programs.parts.prediction import make_prediction, try_predict
from programs.parts.stop_reasons import UNPARSEABLE
from signatures.reading import REASONING, AnswerFromMemory
from signatures.types import Passage, Retriever


class CoT(dspy.Module):
    """Reason step by step from memory, then answer; `response` contains the reasoning, too.

    Args:
        retrieve: Never called; accepted because all programs have the same constructor.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}}

    def __init__(self, retrieve: Retriever | None = None):
        super().__init__()
        self.retrieve = retrieve
        # Departure: reasoning and answer are two typed fields instead of one text cut at "the answer is", and an
        # instruction takes the place of the paper's eight demonstrations, which compiling adds.
        self.answering = dspy.ChainOfThought(AnswerFromMemory, REASONING)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; `passages` are ignored, because the program is closed-book."""
        step = try_predict(self.answering, question=question)
        if step is None:
            return make_prediction("", stop_reason=UNPARSEABLE)
        return make_prediction(step.answer, response=f"{step.reasoning}\n{step.answer}")

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 1
