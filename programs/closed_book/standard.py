"""Closed-book answering: one call, no retrieval. A baseline.

Brown et al., "Language Models are Few-Shot Learners", NeurIPS 2020, section 3.2 (closed-book question answering).
https://arxiv.org/abs/2005.14165
"""

from typing import Any

import dspy

from programs.parts.prediction import make_prediction, try_predict
from programs.parts.stop_reasons import UNPARSEABLE
from signatures.reading import AnswerFromMemory
from signatures.types import Passage, Retriever


class Standard(dspy.Module):
    """Answer from memory in one call; an unparseable reply is an abstention.

    Args:
        retrieve: Never called; accepted because all programs have the same constructor.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}}

    def __init__(self, retrieve: Retriever | None = None):
        super().__init__()
        self.retrieve = retrieve
        self.answering = dspy.Predict(AnswerFromMemory)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; `passages` are ignored, because the program is closed-book."""
        step = try_predict(self.answering, question=question)
        return make_prediction(step.answer) if step else make_prediction("", stop_reason=UNPARSEABLE)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 1
