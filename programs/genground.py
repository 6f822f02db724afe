"""Generate-then-Ground: answer each hop from memory, then correct it against passages.

Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024,
sections 3.1 to 3.3 (the loop), 3.3 (batches), 5.1 (StrategyQA), 6.2 (ablations). https://arxiv.org/abs/2406.14891

Departure: the paper leaves open what happens when the hops run out; one more call then concludes from the settled hops.
Departure: a claim to be finished before any hop was settled is not believed: the step is grounded as a hop first.
Departure: a sub-question that repeats an earlier one ends the loop, for nothing new can come of it.
Departure: a sub-question of fewer than three words asks nothing; the question itself is grounded in its place.
Departure: an unreadable first deduction grounds the question itself, without a draft; a later one ends the loop.
Departure: an unreadable grounding counts as "nothing citable".
Departure: evidence counts as cited only when it can be found in a passage's text: two words or more, verbatim or, from
four words on, with 60 % of them; a bare title is no evidence.
Departure: replies that these rules override are taken out of the trace, so that no optimizer makes demos of them.
Departure: without deduction the paper leaves the query open; we search with question and answer together.
Departure: on true/false questions (StrategyQA) the paper finishes with True or False in the deduction's own reply; with
`true_false` one typed call decides from the settled hops, whether the deduction called itself finished or not. Where
that call cannot be read, a yes or no in the deduction's final or the last hop's answer stands, and otherwise none.
Departure: the public code grounds without the early stop of section 3.3, and so does the preset "code"; there each
batch may send one cited passage back to the queue, where the code sends all.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.passages import quoted_passage
from programs.parts.predict import attempt, retract
from programs.parts.prediction import outcome, retrieve_or_given
from programs.parts.yesno import spelling
from signatures.common.errors import UserError
from signatures.genground import CiteEvidence, ConcludeAnswer, ConcludeTruth, DeduceAnswer, GroundAnswer
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.text import normalize_answer
from signatures.types import Hop, Passage, Retriever

KEPT, CONFIRMED, CORRECTED, READ = "kept", "confirmed", "corrected", "read"


class Claim(NamedTuple):
    """What a deduction says, before it is checked; the fields are those of the grounding prompt.

    Args:
        question: The whole question.
        sub_question: What is asked now.
        draft: Its answer from memory.
    """

    question: str
    sub_question: str
    draft: str

    def settled(
        self, answer: str, verdict: str, *, evidence: str | None = None, passages: Sequence[Passage] = ()
    ) -> Hop:
        """Return the hop that the claim became."""
        return Hop(
            question=self.sub_question,
            answer=answer,
            draft=self.draft,
            evidence=evidence,
            passage_ids=[passage.id for passage in passages],
            verdict=verdict,
        )


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
        true_false: True always ends by deciding between yes and no, from the one hop where there is no deduction.
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
        true_false: bool = False,
    ):
        super().__init__()
        switches = {"deduce": deduce, "ground": ground, "batch": batch, "early_stop": early_stop}
        numbers = {"k": k, "batch_size": batch_size, "max_hops": max_hops}
        set_knobs(self, {**numbers, **switches, "true_false": true_false})
        if not early_stop and batch_size < 2:
            raise UserError("early_stop=False needs batch_size >= 2: with 1 the queue of cited passages never shrinks.")
        self.retrieve = retrieve
        self.deduction = dspy.Predict(DeduceAnswer)
        self.grounding = dspy.Predict(GroundAnswer)
        if true_false:
            self.truth = dspy.Predict(ConcludeTruth)
        else:
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
            if step is not None and step.finished and hops and (step.answer or self.true_false):
                answer = self._truth(question, hops, step.answer) if self.true_false else step.answer
                return self._outcome(answer, hops, read)
            claim = self._claim(question, step)
            if normalize_answer(claim.sub_question) in {normalize_answer(hop.question) for hop in hops}:
                break
            given = passages if not hops or self.retrieve is None else None
            hop, seen = self._settle(claim, given)
            hops.append(hop)
            read += seen
        return self._outcome(self._conclude(question, hops), hops, read)

    def max_calls(self) -> int:
        """Return the most LM calls one question can take: all hops deduced, no batch citable, then the conclusion.

        The bound counts k passages a hop; more given passages than k take a call for each further batch.
        """
        if not self.deduce:
            return 1 + self._calls_per_hop() + self.true_false
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

    def _claim(self, question: str, step: dspy.Prediction | None) -> Claim:
        """Return what the deduction claims; where it asks nothing usable, the question itself stands in."""
        if step is None:
            return Claim(question, question, "")
        usable = len(step.sub_question.split()) >= 3
        if not usable or step.finished:
            retract(self.deduction)
        return Claim(question, step.sub_question if usable else question, step.answer)

    def _whole_question(self, question: str, given: list[Passage] | None) -> dspy.Prediction:
        """Answer the whole question from memory and check that against passages found with question and answer."""
        step = attempt(self.memory, question=question)
        hop, read = self._settle(Claim(question, question, step.answer if step else ""), given)
        answer = self._truth(question, [hop], hop.answer) if self.true_false else hop.answer
        return self._outcome(answer, [hop], read)

    def _settle(self, claim: Claim, given: list[Passage] | None) -> tuple[Hop, list[Passage]]:
        """Turn a claim into a settled hop, and return the passages read for it."""
        query = claim.sub_question if self.deduce else f"{claim.sub_question} {claim.draft}".strip()
        found = retrieve_or_given(self, query, self.k, given)
        if not self.ground:
            return self._read(claim, found)
        return self._stop_at_evidence(claim, found) if self.early_stop else self._queue(claim, found)

    def _read(self, claim: Claim, found: list[Passage]) -> tuple[Hop, list[Passage]]:
        step = attempt(self.reading, question=claim.sub_question, passages=found)
        answer = step.answer if step and step.answer else claim.draft
        return claim.settled(answer, READ, passages=found), found

    def _stop_at_evidence(self, claim: Claim, found: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read batch by batch and stop at the first citable evidence (section 3.3)."""
        size = self._batch_size()
        for start in range(0, len(found), size):
            batch = found[start : start + size]
            hop = self._check(claim, batch)
            if hop is not None:
                return hop, found[: start + len(batch)]
        return claim.settled(claim.draft, KEPT), found

    def _queue(self, claim: Claim, found: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read every batch, let cited passages queue again, and revise once with those left (the public code)."""
        size, queue = self._batch_size(), list(found)
        while len(queue) > size:
            batch, queue = queue[:size], queue[size:]
            step = attempt(self.citing, passages=batch, **claim._asdict())
            cited = quoted_passage(step.evidence, batch) if step else None
            queue += [cited] if cited else []
        hop = self._check(claim, queue) if queue else None
        return hop or claim.settled(claim.draft, KEPT), found

    def _check(self, claim: Claim, batch: list[Passage]) -> Hop | None:
        """Ground the draft in one batch; None when nothing in it is citable."""
        step = attempt(self.grounding, passages=batch, **claim._asdict())
        cited = quoted_passage(step.evidence, batch) if step else None
        if step is None or cited is None or not step.answer:
            if step is not None and step.evidence.strip():
                retract(self.grounding)  # evidence that stands nowhere is no example to follow
            return None
        verdict = CONFIRMED if normalize_answer(step.answer) == normalize_answer(claim.draft) else CORRECTED
        return claim.settled(step.answer, verdict, evidence=step.evidence, passages=[cited])

    def _conclude(self, question: str, hops: list[Hop]) -> str:
        """Force a conclusion; where even that cannot be read, the last hop's answer stands."""
        if self.true_false:
            return self._truth(question, hops, hops[-1].answer)
        step = attempt(self.conclusion, question=question, hops=hops)
        return step.answer if step and step.answer else hops[-1].answer

    def _truth(self, question: str, hops: list[Hop], otherwise: str) -> str:
        """Return yes or no as the hops decide; where that cannot be read, as `otherwise` begins, or nothing."""
        step = attempt(self.truth, question=question, hops=hops)
        decided = step.answer if step else next(map(spelling, otherwise.split()), None)
        return {True: "yes", False: "no", None: ""}[decided]

    def _outcome(self, answer: str, hops: list[Hop], read: list[Passage]) -> dspy.Prediction:
        return outcome(answer, hops=hops, passages=read, citations=[id for hop in hops for id in hop.passage_ids])
