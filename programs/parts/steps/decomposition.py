"""One sub-question at a time, each answered on its own by one strategy, until the LM finishes.

Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024, section
5.2, ask GenRead and GRG so ("w/ decomposition"). https://arxiv.org/abs/2406.14891

1. From the settled hops, finish with the answer, or ask the next sub-question. A question that is finished before any
   hop was settled is its own first sub-question.
2. Answer the sub-question alone. The hop is settled; go to 1.
3. After the last hop, conclude from the settled hops.

The paper says no more than that sub-questions are asked and answered; the rest is that of GenGround, which it is
compared with, so that what differs is how a sub-question is answered.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import dspy

from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item
from programs.parts.prediction import drop_from_trace, settled, try_predict
from programs.parts.stop_reasons import CAP, FINISHED, REPEATED, UNPARSEABLE
from signatures.text_words import count_words, same_words
from signatures.types import Hop

_FEWEST_WORDS = 3  # of a usable sub-question


class Decomposed(NamedTuple):
    """The answer to a question, and the hops that led to it.

    Args:
        answer: Empty if no hop has one.
        hops: At least one, all of them settled.
        stop_reason: "finished", "repeated", "unparseable" or "cap".
    """

    answer: str
    hops: list[Hop]
    stop_reason: str


def answer_by_sub_questions(
    question: str, *, asking: dspy.Module, concluding: dspy.Module, solve: Callable[[str, int], Hop], most: int
) -> Decomposed:
    """Return the answer to a question by way of sub-questions.

    It takes at most `most` calls of `asking` and of `solve`, and one of `concluding`.

    Args:
        question: The question.
        asking: A predictor of `AskNext`.
        concluding: A predictor of `ConcludeAnswer`.
        solve: Returns the hop of a sub-question, given with its number, from 1.
        most: Hops at most, one or more.
    """
    hops: list[Hop] = []
    stop_reason = CAP
    while len(hops) < most:
        reply = try_predict(asking, question=question, hops=list(hops))  # step 1
        if reply is None and hops:  # Departure: an unparseable reply after the first hop ends the loop.
            stop_reason = UNPARSEABLE
            break
        if reply is not None and reply.finished and hops:
            stop_reason = FINISHED
            if gives_answer(reply.answer):
                return Decomposed(reply.answer.strip(), hops, stop_reason)
            drop_from_trace(reply)  # Departure: finished without an answer, or with a refusal: conclude.
            break
        sub_question = _sub_question(question, reply)
        # Departure: a sub-question that repeats an earlier one ends the loop, since it would find nothing new.
        if same_words(sub_question) in {same_words(hop.question) for hop in hops}:
            drop_from_trace(reply)
            stop_reason = REPEATED
            break
        hops.append(settled(solve(sub_question, len(hops) + 1)))  # step 2
    return Decomposed(_conclude(concluding, question, hops), hops, stop_reason)  # step 3


def _sub_question(question: str, reply: dspy.Prediction | None) -> str:
    """Return the sub-question of a reply; the question itself if it has none that is usable.

    Departure: usable is one of three words or more; an answer before any hop was settled is from memory alone and is
    not used. Replies that are overridden leave the trace, so as not to become demonstrations.
    """
    if reply is None:
        return question
    short = count_words(reply.sub_question) < _FEWEST_WORDS or is_no_item(reply.sub_question)
    if reply.finished or short:
        drop_from_trace(reply)
        return question
    return reply.sub_question.strip()


def _conclude(concluding: dspy.Module, question: str, hops: Sequence[Hop]) -> str:
    """Return the conclusion from the hops; if it is unparseable or empty, the answer of the last hop that has one."""
    reply = try_predict(concluding, question=question, hops=list(hops))
    if reply is not None and reply.answer.strip():
        return reply.answer.strip()
    return next((hop.answer for hop in reversed(hops) if hop.answer), "")
