"""Generate-then-Ground: answer each hop from memory, then correct it against passages.

Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024,
sections 3.1 to 3.3 (the loop), 3.3 (batches), 5.1 (StrategyQA), 6.2 (ablations). https://arxiv.org/abs/2406.14891

1. Deduce: from the settled hops, either finish with the answer, or ask the next sub-question and answer it from memory.
   A question that is finished before any hop was settled is its own first sub-question, and is grounded like any other.
2. Ground: retrieve k passages for the sub-question and read them in batches; the first batch with citable evidence
   confirms or corrects the answer, otherwise it is kept. The hop is settled; go to 1.
3. After `max_hops` hops, conclude from the settled hops.

Demonstrations of GenGround's deduction (section 3.1), for its knob `few_shot`.

The paper's own are in a figure that its text lacks. These are invented, as are all their names: a question that chains
two facts, and one that compares two. Each deduction of both is a demonstration, so that together they show one hop per
step, a hop that builds on the evidence before it, and how to finish.
"""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.passages import Quoted, find_quote, is_no_item
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.stop_reasons import CAP, DONE, FINISHED, REPEATED, UNPARSEABLE
from signatures.common.errors import UserError
from signatures.genground import CiteEvidence, ConcludeAnswer, ConcludeTruth, DeduceAnswer, GroundAnswer
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.text_words import count_words, same_words
from signatures.types import Hop, Passage, Retriever
from signatures.voting import is_answer
from signatures.yes_no import leading_verdict


def _deductions(question: str, hops: Sequence[Hop], answer: str) -> list[dspy.Example]:
    """Return one demonstration for each deduction of a question: one for each hop, one that finishes."""
    steps = [
        dspy.Example(
            question=question, hops=list(hops[:settled]), finished=False, sub_question=hop.question, answer=hop.answer
        )
        for settled, hop in enumerate(hops)
    ]
    end = dspy.Example(question=question, hops=list(hops), finished=True, sub_question=question, answer=answer)
    return [*steps, end]


DEDUCTIONS = (
    *_deductions(
        "In which river does the island lie on which the composer of the opera The Glass Orchard was born?",
        [
            Hop(
                question="Who composed the opera The Glass Orchard?",
                answer="Ismene Varrault",
                evidence="The Glass Orchard is an opera in three acts by Ismene Varrault, first given in 1911.",
            ),
            Hop(
                question="On which island was the composer Ismene Varrault born?",
                answer="Tollen",
                evidence="Ismene Varrault was born on Tollen, the daughter of a ferryman.",
            ),
            Hop(
                question="In which river does the island of Tollen lie?",
                answer="the Sarne",
                evidence="Tollen is the largest island in the Sarne.",
            ),
        ],
        "the Sarne",
    ),
    *_deductions(
        "Was the Brannoch Viaduct opened before the Lisk Tunnel?",
        [
            Hop(
                question="In which year was the Brannoch Viaduct opened?",
                answer="1874",
                evidence="Trains have crossed the Brannoch Viaduct since it was opened in May 1874.",
            ),
            Hop(
                question="In which year was the Lisk Tunnel opened?",
                answer="1869",
                evidence="The Lisk Tunnel was opened in 1869 and widened in 1902.",
            ),
        ],
        "no",
    ),
)


KEPT, CONFIRMED, CORRECTED, READ = "kept", "confirmed", "corrected", "read"
_FEWEST_WORDS = 3  # of a usable sub-question
# "No one knows" and "True love" are no verdicts; "No it is not" is one.
_DETERMINES = re.compile(
    r"\W*(?:no|true|false)[\s*_]+(?!(?:because|since|as|it|he|she|they|i|we|this|that|these|those|there|the|not|but|and)\b)\w",
    re.IGNORECASE,
)


class Claim(NamedTuple):
    """A sub-question and its unchecked answer; the fields are those of the grounding prompt.

    Args:
        question: The original question.
        sub_question: The sub-question of this hop.
        draft: Its answer from memory.
    """

    question: str
    sub_question: str
    draft: str

    def settled(
        self, answer: str, verdict: str, *, quoted: Quoted | None = None, passages: Sequence[Passage] = ()
    ) -> Hop:
        """Return the claim as a settled hop, which read the passage that it quotes, or `passages`."""
        read = [quoted.passage] if quoted and quoted.passage else passages
        return Hop(
            question=self.sub_question,
            answer=answer,
            draft=self.draft,
            evidence=quoted.text if quoted else None,
            match=quoted.match if quoted else None,
            passage_ids=[passage.id for passage in read],
            verdict=verdict,
        )


class GenGround(dspy.Module):
    """Alternate answer deduction and knowledge grounding, one hop at a time.

    The verdict of a hop: "kept" (nothing citable, the answer from memory is kept), "unparseable" (nothing citable, and
    the reply with that answer was), "confirmed" (evidence agrees with the draft), "corrected" (evidence changed it),
    "read" (without grounding). Its passage ids, which are cited, are the passage quoted; without grounding, all
    passages of the hop.

    Args:
        retrieve: Ranks passages for a sub-question.
        k: Passages retrieved per hop (paper: 10).
        batch_size: Passages shown per grounding call (paper: 3).
        max_hops: Hops before the conclusion is forced (the paper states no cap; the public code: 7).
        deduce: False answers the original question from memory and grounds that (section 6.2, w/o deduction).
        ground: False reads each sub-question's answer directly from its passages (w/o grounding).
        batch: False shows all k passages in one prompt (w/o batch).
        early_stop: False reads every batch, queues cited passages, and revises once at the end (the public code).
        true_false: True ends with yes or no: that of the deduction, or a separate decision if it gives neither.
        few_shot: True starts with demonstrations of the deduction (section 3.1); compiling replaces them.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        # Departure: the paper's deduction is few-shot, with demonstrations that its text lacks. Ours are invented and
        # cost about 700 tokens a step, so the default has none: compiling makes them from a benchmark's own questions.
        "paper": {},
        "few_shot": {"few_shot": True},
        # Departure: the public code grounds without the early stop of section 3.3.
        "code": {"k": 9, "batch_size": 3, "max_hops": 7, "early_stop": False},
        "small": {"k": 3, "batch_size": 1, "max_hops": 4},
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
        few_shot: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        if not early_stop and batch_size < 2:
            raise UserError("early_stop=False needs batch_size >= 2: with 1 the queue of cited passages never shrinks.")
        self.retrieve = retrieve
        self.deduction = dspy.Predict(DeduceAnswer)
        if few_shot:
            self.deduction.demos = list(DEDUCTIONS)
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
        """Return the answer with its hops; fixed `passages` replace the first retrieval (all without a retriever)."""
        if not self.deduce:
            return self._answer_without_deduction(question, passages)
        hops: list[Hop] = []
        read: list[Passage] = []
        stop_reason = CAP
        while len(hops) < self.max_hops:
            # Equation 1 is one call; the prose of section 3.1 can be read as two, the second for the answer.
            reply = try_predict(self.deduction, question=question, hops=hops)  # step 1
            if reply is None and hops:  # Departure: an unparseable deduction after the first hop ends the loop.
                stop_reason = UNPARSEABLE
                break
            if reply is not None and reply.finished and hops:
                answer = self._finish(question, hops, reply)
                return self._prediction(answer, hops, read, FINISHED)
            claim = self._claim(question, reply)
            # Departure: a sub-question that repeats an earlier one ends the loop, since it would find nothing new.
            if same_words(claim.sub_question) in {same_words(hop.question) for hop in hops}:
                drop_from_trace(reply)
                stop_reason = REPEATED
                break
            fixed = passages if not hops or self.retrieve is None else None
            hop, passages_read = self._ground(claim, fixed)  # step 2
            hops.append(settled(_with_loss(hop, reply)))
            read += passages_read
        answer = self._conclude(question, hops)  # step 3
        return self._prediction(answer, hops, read, stop_reason)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: all hops deduced, no batch citable, a conclusion.

        The bound counts k passages a hop; fixed contexts beyond k take one call for each further batch.
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

    def _claim(self, question: str, reply: dspy.Prediction | None) -> Claim:
        """Return the sub-question and draft of a deduction; the question itself replaces an unusable sub-question."""
        if reply is None:  # Departure: if the first deduction is unparseable, the question is grounded without a draft.
            return Claim(question, question, "")
        # Departure: "finished" before any hop was settled makes the reply a draft of the answer to the question, which
        # is grounded as the first hop. The loop then goes on: only a deduction that sees it can finish.
        # Departure: a sub-question of fewer than three words is unusable; the question itself is grounded instead,
        # without a draft, since the answer is that of the sub-question.
        short = count_words(reply.sub_question) < _FEWEST_WORDS or is_no_item(reply.sub_question)
        if reply.finished or short:
            drop_from_trace(reply)  # Departure: replies that are overridden leave the trace, so as not to become demos.
            same = reply.finished or same_words(reply.sub_question) == same_words(question)
            return Claim(question, question, reply.answer if same else "")
        return Claim(question, reply.sub_question, reply.answer)

    def _finish(self, question: str, hops: list[Hop], reply: dspy.Prediction) -> str:
        """Return the answer of a deduction that is finished; without one, or with "unknown", ask for the conclusion."""
        # Departure: on true/false questions (StrategyQA) the paper does not say how yes or no is read; it is the yes or
        # no that the answer begins with, and a separate typed call decides where there is none.
        answer = _yes_or_no(reply.answer) if self.true_false else reply.answer
        if is_answer(answer):
            return answer
        drop_from_trace(reply)
        return self._conclude(question, hops)

    def _answer_without_deduction(self, question: str, fixed: list[Passage] | None) -> dspy.Prediction:
        """Answer the original question from memory and ground that answer."""
        reply = try_predict(self.memory, question=question)
        grounded, read = self._ground(Claim(question, question, reply.answer if reply else ""), fixed)
        hop = settled(_with_loss(grounded, reply))
        answer = hop.answer
        if self.true_false:
            answer = _yes_or_no(answer) or self._decide_truth(question, [hop])
        return self._prediction(answer, [hop], read, DONE)

    def _ground(self, claim: Claim, fixed: list[Passage] | None) -> tuple[Hop, list[Passage]]:
        """Retrieve for the claim and ground it; return the settled hop and the passages read for it."""
        # Departure: without deduction the paper does not specify the query; here it is question and answer together.
        query = claim.sub_question if self.deduce else f"{claim.sub_question} {claim.draft}".strip()
        passages = retrieve_passages(self, query, self.k, fixed=fixed)
        if not self.ground:
            return self._read(claim, passages)
        return self._ground_until_cited(claim, passages) if self.early_stop else self._ground_queue(claim, passages)

    def _read(self, claim: Claim, passages: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read the answer from all passages (section 6.2, w/o grounding).

        Departure: where the paper is silent, the sub-question alone is shown with them, and the draft is the answer if
        the reply is unparseable or empty.
        """
        reply = try_predict(self.reading, question=claim.sub_question, passages=passages)
        answer = reply.answer if reply and reply.answer else claim.draft
        return claim.settled(answer, READ, passages=passages), passages

    def _ground_until_cited(self, claim: Claim, passages: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read batch by batch and stop at the first citable evidence (section 3.3)."""
        size = self._batch_size()
        for start in range(0, len(passages), size):
            batch = passages[start : start + size]
            hop = self._ground_batch(claim, batch)
            if hop is not None:
                return hop, passages[: start + len(batch)]
        return claim.settled(claim.draft, KEPT), passages

    def _ground_queue(self, claim: Claim, passages: list[Passage]) -> tuple[Hop, list[Passage]]:
        """Read every batch, append cited passages to the queue, and revise once with those left (the public code).

        Departure: each batch may return one cited passage to the queue; in the public code, all.
        """
        size, queue = self._batch_size(), list(passages)
        while len(queue) > size:
            batch, queue = queue[:size], queue[size:]
            reply = try_predict(self.citing, passages=batch, **claim._asdict())
            cited = find_quote(reply.evidence, batch).passage if reply else None
            queue += [cited] if cited else []
            if reply and reply.evidence.strip() and not cited:
                drop_from_trace(reply)  # a quote that is not in the passages must not become a demo
        hop = self._ground_batch(claim, queue) if queue else None
        return hop or claim.settled(claim.draft, KEPT), passages

    def _ground_batch(self, claim: Claim, batch: list[Passage]) -> Hop | None:
        """Ground the draft in one batch; None if nothing in it is citable.

        Departure: an unparseable reply cites nothing, and evidence counts as cited only if it stands in a passage,
        verbatim or as a paraphrase (`find_quote`). The paper describes no such check. A citation without an answer, or
        with "unknown", settles nothing: the next batch is read.
        """
        reply = try_predict(self.grounding, passages=batch, **claim._asdict())
        cited = find_quote(reply.evidence, batch) if reply else None
        if reply is None or cited is None or cited.passage is None or not is_answer(reply.answer):
            if reply is not None and (reply.evidence.strip() or same_words(reply.answer) != same_words(claim.draft)):
                drop_from_trace(reply)  # evidence that is in no passage, or an answer that is not used: no demo
            return None
        verdict = CONFIRMED if same_words(reply.answer) == same_words(claim.draft) else CORRECTED
        return claim.settled(reply.answer, verdict, quoted=cited)

    def _conclude(self, question: str, hops: list[Hop]) -> str:
        """Ask for the conclusion from the settled hops; return the last hop's answer if it is unparseable.

        Departure: the paper does not specify what happens when the hops run out.
        """
        if self.true_false:
            return self._decide_truth(question, hops)
        reply = try_predict(self.conclusion, question=question, hops=hops)
        return reply.answer if reply and reply.answer else hops[-1].answer

    def _decide_truth(self, question: str, hops: list[Hop]) -> str:
        """Return yes or no, decided from the hops; if unparseable, that of the last hop, or ""."""
        reply = try_predict(self.truth, question=question, hops=hops)
        return _yes_or_no(hops[-1].answer) if reply is None else "yes" if reply.answer else "no"

    def _prediction(self, answer: str, hops: list[Hop], read: list[Passage], stop_reason: str) -> dspy.Prediction:
        citations = [id for hop in hops for id in hop.passage_ids]
        return make_prediction(answer, stop_reason=stop_reason, hops=hops, passages=read, citations=citations)


def _with_loss(hop: Hop, reply: dspy.Prediction | None) -> Hop:
    """Return the hop; it says so if it has neither evidence nor a draft, whose reply was unparseable."""
    lost = reply is None and hop.verdict == KEPT
    return hop.model_copy(update={"verdict": UNPARSEABLE}) if lost else hop


def _yes_or_no(answer: str) -> str:
    """Return the yes or no that an answer begins with, true and false included; "" if it begins with neither.

    "No" before a noun ("No one knows", "No doubt it is") is no verdict.
    """
    if _DETERMINES.match(answer):
        return ""
    return {True: "yes", False: "no", None: ""}[leading_verdict(answer)]
