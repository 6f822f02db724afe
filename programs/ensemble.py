"""Several programs answer the same question, and the majority decides.

Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", ICLR 2023, section 2 (majority
of the short answers); here the answers are of different programs instead of samples of one. https://arxiv.org/abs/2203.11171
"""

from collections.abc import Sequence
from functools import partial

import dspy

from programs.parts.prediction import completed, make_prediction, observe_hops, settled
from programs.parts.threads import fanout, sequential_calls
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever
from signatures.voting import majority, normalized_key

MOST_PROGRAMS = 16


class Ensemble(dspy.Module):
    """Ask all programs in parallel and return the prediction behind the most frequent short answer.

    Answers are compared normalised, as exact match compares them. Programs that abstain have no vote, unless all do. Of
    the programs that gave the winning answer the earliest is returned whole, and of answers that are equally frequent
    the one of the earliest program. An error of one program is an error of the ensemble.

    `details`: `answers` (of each program, in order; empty if it abstained), `member` (number of the program returned,
    from 1), `agreement` (share of the programs that gave its answer) and `member_details` (its own details).

    Args:
        programs: Two programs or more, most trusted first; they may differ in strategy, knobs, prompts and retriever.

    Raises:
        UserError: There are fewer than two programs or more than `MOST_PROGRAMS`, or one of them is listed twice.
    """

    def __init__(self, programs: Sequence[dspy.Module]):
        super().__init__()
        if not 2 <= len(programs) <= MOST_PROGRAMS:
            raise UserError(f"An ensemble has 2 to {MOST_PROGRAMS} programs, got {len(programs)}.")
        if len({id(program) for program in programs}) < len(programs):
            raise UserError("An ensemble lists one program twice: the second would only repeat the first one's vote.")
        self.programs = list(programs)

    @property
    def retrieve(self) -> Retriever | None:
        """The retriever of the first program that has one."""
        found = (getattr(program, "retrieve", None) for program in self.programs)
        return next((retrieve for retrieve in found if retrieve is not None), None)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the prediction that most programs agree with; each program gets the same fixed `passages`."""
        with observe_hops(None):  # which of them are those of the ensemble is known at the end
            asked = [partial(program, question=question, passages=passages) for program in self.programs]
            predictions = [completed(prediction) for prediction in fanout(asked)]
        votes = ["" if prediction.abstained else normalized_key(prediction.answer) for prediction in predictions]
        member, agreement = majority(votes)
        chosen = predictions[member]
        return make_prediction(
            chosen.answer,
            stop_reason=chosen.stop_reason,
            hops=list(map(settled, chosen.hops)),
            passages=chosen.passages,
            citations=chosen.citations,
            response=chosen.response,
            abstained=chosen.abstained,
            details={
                "answers": [prediction.answer for prediction in predictions],
                "member": member + 1,
                "agreement": agreement,
                "member_details": chosen.details,
            },
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: those of all programs."""
        return sum(program.max_calls() for program in self.programs)

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the programs are asked in parallel."""
        return max(map(sequential_calls, self.programs))
