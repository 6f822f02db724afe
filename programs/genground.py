"""Generate-then-Ground: answer each hop from memory, then correct it against passages.

Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024,
sections 3.1 to 3.3 (the loop), 3.3 (batches), 6.2 (ablations). https://arxiv.org/abs/2406.14891

Departure: the paper leaves open what happens when the hops run out; one more call then concludes from the settled hops.
Departure: a claim to be finished before any hop was settled is not believed: the step is grounded as a hop first.
Departure: a sub-question that repeats an earlier one ends the loop, for nothing new can come of it.
Departure: a sub-question of fewer than three words asks nothing; the question itself is grounded in its place.
Departure: an unreadable first deduction grounds the question itself, without a draft; a later one ends the loop.
Departure: an unreadable grounding counts as "nothing citable".
Departure: evidence counts as cited only when it can be found in the batch that was read (share of words >= 0.6).
Departure: the public code grounds without the early stop of section 3.3; the preset "code" does as the code does.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.attempt import attempt
from programs.parts.knobs import Range, set_knobs
from programs.parts.outcome import outcome, retrieve_or_given
from programs.parts.quoting import quoted_passage
from signatures.errors import UserError
from signatures.genground import CiteEvidence, ConcludeAnswer, DeduceAnswer, GroundAnswer
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.text import normalize_answer
from signatures.types import Hop, Passage, Retriever

KEPT, CONFIRMED, CORRECTED, READ = "kept", "confirmed", "corrected", "read"


class GenGround(dspy.Module):
    """Alternate answer deduction and knowledge grounding, one hop at a time.

    The verdict of a hop: "kept" (nothing citable, memory stands), "confirmed" (evidence agrees with the draft),
    "corrected" (evidence changed it), "read" (without grounding).

    Args:
        retrieve: Ranks passages for a sub-question.
        k: Passages retrieved per hop (paper: 10).
        batch_size: Passages shown per grounding call (paper: 3).
        max_hops: Hops before the conclusion is forced (the public code: 7).
        deduce: False answers the whole question from memory and grounds that (section 6.2, w/o deduction).
        ground: False reads each sub-question's answer straight from its passages (w/o grounding).
        batch: False shows all k passages in one prompt (w/o batch).
        early_stop: False reads every batch and carries cited passages along before revising once (the public code).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "code": {"k": 9, "batch_size": 3, "max_hops": 7, "early_stop": False},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 10,
        batch_size: Annotated[int, Range(1, 10)] = 3,
        max_hops: Annotated[int, Range(1, 8)] = 5,
        deduce: bool = True,
        ground: bool = True,
        batch: bool = True,
        early_stop: bool = True,
    ):
        super().__init__()
        switches = {"deduce": deduce, "ground": ground, "batch": batch, "early_stop": early_stop}
        set_knobs(self, {"k": k, "batch_size": batch_size, "max_hops": max_hops, **switches})
        if not early_stop and batch_size < 2:
            raise UserError("early_stop=False needs batch_size >= 2: with 1 the queue of cited passages never shrinks.")
        self.retrieve = retrieve
        self.deduction = dspy.Predict(DeduceAnswer)
        self.grounding = dspy.Predict(GroundAnswer)
        self.conclusion = dspy.Predict(ConcludeAnswer)
        if not deduce:
            self.memory = dspy.Predict(AnswerFromMemory)
        if not ground:
            self.reading = dspy.Predict(ReadAnswer)
        if not early_stop:
            self.citing = dspy.Predict(CiteEvidence)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer with its hops; given `passages` serve the first hop, and every hop without a retriever."""
        if not self.deduce:
            return self._whole_question(question, passages)
        hops: list[Hop] = []
        read: list[Passage] = []
        while len(hops) < self.max_hops:
            step = attempt(self.deduction, question=question, hops=hops)
            if step is None and hops:
                break
            if step is not None and step.finished and hops and step.answer:
                return self._outcome(step.answer, hops, read)
            draft = step.answer if step else ""
            sub_question = step.sub_question if step and len(step.sub_question.split()) >= 3 else question
            if normalize_answer(sub_question) in {normalize_answer(hop.question) for hop in hops}:
                break
            given = passages if not hops or self.retrieve is None else None
            hop, seen = self._settle(sub_question, draft, given)
            hops.append(hop)
            read += seen
        return self._outcome(self._conclude(question, hops), hops, read)

    def max_calls(self) -> int:
        """Return the most LM calls one question can take: all hops deduced, no batch citable, then the conclusion.

        The bound counts k passages a hop; more given passages than k take a call for each further batch.
        """
        if not self.deduce:
            return 1 + self._calls_per_hop()
        return self.max_hops * (1 + self._calls_per_hop()) + 1

    def _calls_per_hop(self) -> int:
        if not self.ground:
            return 1
        size = self._batch_size()
        if self.early_stop:
            return math.ceil(self.k / size)
        return math.ceil(max(0, self.k - size) / (size - 1)) + 1

    def _batch_size(self) -> int:
        return self.batch_size if self.batch else max(self.k, 2)

    def _whole_question(self, question: str, given: list[Passage] | None) -> dspy.Prediction:
        """Answer the whole question from memory and check that against passages found with question and answer."""
        step = attempt(self.memory, question=question)
        hop, read = self._settle(question, step.answer if step else "", given)
        return self._outcome(hop.answer, [hop], read)

    def _settle(self, question: str, draft: str, given: list[Passage] | None) -> tuple[Hop, list[Passage]]:
        """Turn a sub-question and its draft into a settled hop, and return the passages read for it."""
        query = question if self.deduce else f"{question} {draft}".strip()
        found = retrieve_or_given(self, query, self.k, given)
        if not self.ground:
            return self._read(question, draft, found)
        return (
            self._stop_at_evidence(question, draft, found) if self.early_stop else self._queue(question, draft, found)
        )

    def _read(self, question: str, draft: str, found: list[Passage]) -> tuple[Hop, list[Passage]]:
        step = attempt(self.reading, question=question, passages=found)
        answer = step.answer if step and step.answer else draft
        return _hop(question, draft, answer, None, found, READ), found

    def _stop_at_evidence(self, question: str, draft: str, found: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read batch by batch and stop at the first citable evidence (section 3.3)."""
        size = self._batch_size()
        for start in range(0, len(found), size):
            batch = found[start : start + size]
            hop = self._check(question, draft, batch)
            if hop is not None:
                return hop, found[: start + len(batch)]
        return _hop(question, draft, draft, None, [], KEPT), found

    def _queue(self, question: str, draft: str, found: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read every batch, let cited passages queue again, and revise once with those left (the public code)."""
        size, queue = self._batch_size(), list(found)
        while len(queue) > size:
            batch, queue = queue[:size], queue[size:]
            step = attempt(self.citing, question=question, draft=draft, passages=batch)
            cited = quoted_passage(step.evidence, batch) if step else None
            queue += [cited] if cited else []
        hop = self._check(question, draft, queue) if queue else None
        return hop or _hop(question, draft, draft, None, [], KEPT), found

    def _check(self, question: str, draft: str, batch: list[Passage]) -> Hop | None:
        """Ground the draft in one batch; None when nothing in it is citable."""
        step = attempt(self.grounding, question=question, draft=draft, passages=batch)
        cited = quoted_passage(step.evidence, batch) if step else None
        if step is None or cited is None or not step.answer:
            return None
        verdict = CONFIRMED if normalize_answer(step.answer) == normalize_answer(draft) else CORRECTED
        return _hop(question, draft, step.answer, step.evidence, [cited], verdict)

    def _conclude(self, question: str, hops: list[Hop]) -> str:
        """Force a conclusion; where even that cannot be read, the last hop's answer stands."""
        if not hops:
            return ""
        step = attempt(self.conclusion, question=question, hops=hops)
        return step.answer if step and step.answer else hops[-1].answer

    def _outcome(self, answer: str, hops: list[Hop], read: list[Passage]) -> dspy.Prediction:
        return outcome(answer, hops=hops, passages=read, citations=[id for hop in hops for id in hop.passage_ids])


def _hop(
    question: str, draft: str, answer: str, evidence: str | None, passages: Sequence[Passage], verdict: str
) -> Hop:
    ids = [passage.id for passage in passages]
    return Hop(question=question, answer=answer, draft=draft, evidence=evidence, passage_ids=ids, verdict=verdict)
