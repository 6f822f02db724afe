"""The answers of a loop that answers twice per round: what was decided about each, and which one is returned."""

from typing import NamedTuple

import dspy

from programs.parts.predict import drop_from_trace
from programs.parts.prediction import is_answer
from programs.parts.ranking import passes
from signatures.refusals import refuses
from signatures.types import Candidate, Hop

ACCEPTED, DISAGREED, NO_ANSWER, UNPARSEABLE, FINAL = "accepted", "disagreed", "no answer", "unparseable", "final"


class Answer(NamedTuple):
    """The two answers of a round and, once judged, the verdict on them."""

    replies: list[dspy.Prediction | None]  # with reasoning, then direct; None if unparseable
    text: str  # a; empty if unparseable
    reasoning: str  # r
    direct: str | None  # the monitoring answer a_sc; None if there is none
    answered: float | None = None  # P(yes) that a is an answer; None if not judged or unparseable
    agreement: float | None = None  # s_sc; None if not judged or unparseable
    verdict: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether both answers agree, so that the loop ends."""
        return self.verdict == ACCEPTED


def refusal(answer: Answer) -> str | None:
    """Return the verdict on a reply that cannot be judged (unparseable, empty or "unknown"); None if it can."""
    if is_answer(answer.text):
        return None
    return NO_ANSWER if answer.replies[0] else UNPARSEABLE


def verdict(answered: float | None, agreement: float | None, threshold: float) -> str:
    """Return the verdict for P(yes) that a reply is an answer and that the other agrees; None is unparseable.

    A reply is an answer above 0.5, the bound of the paper's gates; for this judgement it names none.
    """
    if answered is not None and not passes(answered, 0.5):
        return NO_ANSWER
    if answered is None or agreement is None:
        return UNPARSEABLE  # Departure: the loop continues.
    return ACCEPTED if passes(agreement, threshold) else DISAGREED


def final_answer(answers: list[Answer]) -> Answer | None:
    """Return the last answer; if it is empty or "unknown", the latest that was judged to be one, or not judged.

    If there is none, return the latest that was refused but does not decline in words: a judgement may be wrong,
    and the paper's loop never abstains. None if there is none of these either.

    The last round's prompt does not offer "unknown", so that an earlier answer is only returned if that prompt's reply
    is unparseable, empty or "unknown" nonetheless. Departure: the paper does not say what its loop returns then, nor
    that it returns the last answer if none was accepted, which follows from its ablation without answer evaluation.
    """
    doubtful = {NO_ANSWER, UNPARSEABLE}
    usable = [answer for answer in answers[:-1] if answer.verdict not in doubtful] + answers[-1:]
    refused = [answer for answer in answers[:-1] if answer.verdict in doubtful and not refuses(answer.text)]
    return next((answer for answer in reversed([*refused, *usable]) if is_answer(answer.text)), None)


def drop_unused_replies(answers: list[Answer], final: Answer | None) -> None:
    """Remove the replies that did not lead to the final answer from the trace: they must not become demos."""
    for answer in answers:
        used = 0 if answer is not final else 2 if answer.accepted else 1  # of its replies
        drop_from_trace(*answer.replies[used:])


def answer_hop(search: str, added: list[str], answer: Answer, records: list[Candidate], *, last: bool) -> Hop:
    """Return the hop of a round.

    Args:
        search: The search query.
        added: Ids of the passages that the search added.
        answer: The answers of the round.
        records: All evidence scored.
        last: No round follows, even if the answer was not accepted.
    """
    final = last and not answer.accepted and is_answer(answer.text)
    result = {"answer": answer.text, "draft": answer.direct, "verdict": FINAL if final else answer.verdict}
    return Hop(question=search, passage_ids=added, candidates=records, **result)
