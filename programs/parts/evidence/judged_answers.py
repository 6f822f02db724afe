"""The answers of a loop that answers twice per round: what was decided about each, and which one is returned."""

from typing import NamedTuple

import dspy

from programs.parts.gates import Gate
from programs.parts.longform import gives_answer
from programs.parts.predict import drop_from_trace
from programs.parts.ranking import passes
from programs.parts.stop_reasons import CAP, FINISHED
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

    @property
    def stop_reason(self) -> str:
        """Why a loop whose last answer this is has ended."""
        return FINISHED if self.accepted else CAP


def refusal(answer: Answer) -> str | None:
    """Return the verdict on a reply that need not be judged (unparseable, empty, "unknown" or a refusal), or None."""
    if gives_answer(answer.text):
        return None
    return NO_ANSWER if answer.replies[0] else UNPARSEABLE


def verdict(answered: float | None, agreement: float | None, *, threshold: float) -> str:
    """Return the verdict for P(yes) that a reply is an answer and that the other agrees; None is unparseable.

    A reply is an answer above 0.5, the bound of the paper's gates; for this judgement it names none.
    """
    if answered is not None and not passes(answered, 0.5):
        return NO_ANSWER
    if answered is None or agreement is None:
        return UNPARSEABLE  # Departure: the loop continues.
    return ACCEPTED if passes(agreement, threshold) else DISAGREED


ACCEPTANCE = Gate(lambda values, knobs: verdict(**values, threshold=knobs["threshold"]), ("threshold",))


def final_answer(answers: list[Answer]) -> Answer | None:
    """Return the last answer that is one; None if no reply answers, in whichever words it declines.

    The last round's prompt does not offer "unknown". If its reply is unparseable, or declines nonetheless, the latest
    earlier answer is returned, and so it is if the assessor alone rejects the reply. Of the earlier ones, answers that
    were judged to be none, or whose judgement was lost, come after the others: a judgement may be wrong, and the
    paper's loop never abstains.

    Departure: the paper does not say what its loop returns if no answer was accepted; that it is the last one follows
    from its ablation without answer evaluation.
    """
    given = [answer for answer in answers if gives_answer(answer.text)]
    last = answers[-1] if answers else None
    trusted = [answer for answer in given if answer.verdict not in {NO_ANSWER, UNPARSEABLE}]
    if last is not None and gives_answer(last.text) and (last.verdict != NO_ANSWER or not trusted):
        return last
    return next(reversed(trusted or given), None)


def drop_unused(answers: list[Answer], final: Answer | None) -> None:
    """Remove the replies that did not lead to the final answer from the trace: they must not become demos."""
    for answer in answers:
        used = 0 if answer is not final else 2 if answer.accepted else 1  # of its replies
        drop_from_trace(*answer.replies[used:])


def answer_hop(search: str, added: list[str], answer: Answer, records: list[Candidate], *, final: bool) -> Hop:
    """Return the hop of a round.

    Args:
        search: The search query.
        added: Ids of the passages that the search added.
        answer: The answers of the round.
        records: All evidence scored.
        final: The answer is the output of the program, even if it was not accepted.
    """
    verdict = FINAL if final and not answer.accepted else answer.verdict
    result = {"answer": answer.text, "draft": answer.direct, "verdict": verdict}
    return Hop(question=search, passage_ids=added, candidates=records, **result)
