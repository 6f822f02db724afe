"""A chain of thought whose sentences are searched for one by one, and the reading of all that they find.

The steps are those of IRCoT, which `programs/multi_step/ircot.py` numbers; Adaptive-RAG takes them for its complex
questions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dspy

from programs.parts.longform import read_answer
from programs.parts.passages import deduplicate, passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.reasoning.thought import drop_overruled, join_sentences, next_sentence, stated_answer
from programs.parts.stop_reasons import CAP, FINISHED, REPEATED, UNPARSEABLE
from signatures.types import Hop, Passage


class Interleaved(NamedTuple):
    """A thought that has ended.

    Args:
        thought: Its sentences.
        hops: One for each sentence, settled; of the last one the answer is empty if there was none.
        found: All passages, in the order in which they were found.
        reply: The last one; None if it was unparseable.
        stop_reason: "finished", "repeated", "unparseable" or "cap".
    """

    thought: list[str]
    hops: list[Hop]
    found: list[Passage]
    reply: dspy.Prediction | None
    stop_reason: str

    @property
    def said(self) -> str:
        """The answer that the thought ends with; empty if it states none."""
        return (stated_answer(self.thought[-1]) if self.thought else None) or ""


def interleave(program: Any, question: str, *, k: int, cap: int, most: int, fixed: list[Passage] | None) -> Interleaved:
    """Return the thought about a question, written and searched for in turns (steps 1 to 3).

    It takes at most `most` calls.

    Args:
        program: Has the predictor `thinking` of `ContinueThought`, and a retriever or None.
        question: The question.
        k: Passages per retrieval.
        cap: Passages in all; fixed ones are all kept and count towards it.
        most: Sentences at most, one or more.
        fixed: Replace the first retrieval (all without a retriever).
    """
    fresh = deduplicate(retrieve_passages(program, question, min(k, cap), fixed=fixed))  # step 1
    found = list(fresh)
    hops: list[Hop] = []
    thought: list[str] = []
    reply, stop_reason = None, CAP
    while len(thought) < most:
        query = thought[-1] if thought else question
        if thought:
            fresh = _search(program, query, k, cap - len(found), found)  # step 3
            found = [*found, *fresh]
        written = join_sentences(thought)
        reply = try_predict(program.thinking, passages=found, question=question, reasoning=written)  # step 2
        sentence = next_sentence(reply.sentence, thought) if reply else ""
        ids = [passage.id for passage in fresh]
        hops.append(settled(Hop(question=query, answer=sentence, passage_ids=ids)))
        # An empty generation ends the thought, as in the public code; here an unparseable one does, too.
        # Departure: so does one that only repeats the thought, since it would find nothing new.
        if not sentence:
            drop_from_trace(reply)
            stop_reason = REPEATED if reply else UNPARSEABLE
            break
        thought.append(sentence)
        if stated_answer(sentence) is not None:
            stop_reason = FINISHED
            break
    return Interleaved(thought, hops, found, reply, stop_reason)


def _search(program: Any, sentence: str, k: int, room: int, found: Sequence[Passage]) -> list[Passage]:
    """Return the passages for a sentence that are new, as many as there is room for."""
    if program.retrieve is None or room <= 0:
        return []
    known = {passage.id for passage in found}
    ranked = deduplicate(retrieve_passages(program, sentence, k))
    return [passage for passage in ranked if passage.id not in known][:room]


def conclude_thought(reading: dspy.Module | None, question: str, done: Interleaved) -> dspy.Prediction:
    """Return the prediction with the answer that a reader gives from all passages (step 4).

    Without a reader or passages, it is what the thought says, or else all of it; where the reader's reply is
    unparseable, or no answer, it is what the thought says. `details` has `thought` and `said`.
    """
    answer, thought = done.said, join_sentences(done.thought)
    if reading is None or not done.found:
        answer = answer or thought
    else:
        answer = read_answer(reading, question, done.found) or answer
    drop_overruled(done.reply, done.thought, answer)
    return make_prediction(
        answer,
        stop_reason=done.stop_reason,
        hops=done.hops,
        passages=done.found,
        citations=passages_supporting(question, answer, done.found),
        details={"thought": thought, "said": done.said},
    )
