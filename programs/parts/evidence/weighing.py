"""Weigh pieces of evidence for a question: one at a time by P(yes), or several in one call."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import dspy

from programs.parts.predict import drop_from_trace, try_predict
from programs.parts.yes_no_scores import Key, YesNoQuestion, YesNoScores, even_groups, listed_scores
from signatures.common.errors import UserError
from signatures.types import Passage

MOST_TOGETHER = 20  # pieces in one call


def check_size(name: str, size: int) -> None:
    """Raise UserError unless `size`, the value of a knob, is a number of pieces for one call."""
    if not 1 <= size <= MOST_TOGETHER:
        raise UserError(f"Knob {name} must be from 1 to {MOST_TOGETHER}, got {size}.")


class Weighing(NamedTuple):
    """Asks how far pieces of evidence contribute to answering a question.

    One at a time, the score of a piece is P(yes). Together, it is a number that the LM writes in a list: coarser, in
    view of the other pieces, and the same whatever the mode of P(yes). A list that is unparseable or has another length
    than the pieces is not used, and neither is a number outside its scale; such pieces are weighed one at a time.

    Args:
        single: Predicts `contributes` from `evidence`, `question` and `query`.
        together: Predicts `scores` from `question`, `query` and `pieces`; None if pieces are weighed one at a time.
        size: The most pieces of one call; 1 for one at a time.
    """

    single: dspy.Predict
    together: dspy.Predict | None = None
    size: int = 1

    def ask(
        self, scores: YesNoScores, pieces: Mapping[Key, str], *, question: str, query: str
    ) -> dict[Key, float | None]:
        """Return the score of each piece in [0, 1], None if the reply was unparseable; no piece is weighed twice."""
        of = {
            key: YesNoQuestion(self.single, evidence=text, question=question, query=query)
            for key, text in pieces.items()
        }
        return scores.ask(of) if self.together is None else scores.ask_together(of, self.size, self._scores)

    def max_calls(self, pieces: int, per_score: int) -> int:
        """Return the most LM calls that weighing takes: each list unusable.

        Args:
            pieces: Not weighed before.
            per_score: Calls per P(yes).
        """
        lists = 0 if self.together is None else sum(len(group) > 1 for group in even_groups(range(pieces), self.size))
        return lists + pieces * per_score

    def _scores(self, group: Sequence[YesNoQuestion]) -> list[float | None]:
        texts = [question.inputs["evidence"] for question in group]
        shown = {name: group[0].inputs[name] for name in ("question", "query")}
        pieces = [Passage(id=str(number), text=text) for number, text in enumerate(texts, start=1)]
        reply = try_predict(self.together, **shown, pieces=pieces) if self.together else None
        found = listed_scores(reply.scores if reply else [], len(texts))
        if None in found:
            drop_from_trace(reply)  # a list that was not used whole must not become a demo
        return found
