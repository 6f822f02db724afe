"""Closed-book answering: one call, no retrieval. The floor of every comparison.

Brown et al., "Language Models are Few-Shot Learners", NeurIPS 2020, section 3.2 (closed-book question answering).
https://arxiv.org/abs/2005.14165
"""

from typing import Any

import dspy

from programs.parts.predict import try_predict
from programs.parts.prediction import make_prediction
from signatures.reading import AnswerFromMemory
from signatures.types import Passage, Retriever


class Standard(dspy.Module):
    """Answer from memory in one call; an unreadable reply is an abstention.

    Args:
        retrieve: Accepted so that all programs are built alike; never called.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}}

    def __init__(self, retrieve: Retriever | None = None):
        super().__init__()
        self.retrieve = retrieve
        self.answering = dspy.Predict(AnswerFromMemory)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; given `passages` are ignored, for this program is closed-book."""
        step = try_predict(self.answering, question=question)
        return make_prediction(step.answer if step else "")

    def max_calls(self) -> int:
        """Return the most LM calls one question can take."""
        return 1
