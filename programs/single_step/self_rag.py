"""Self-RAG, prompted: answer from each passage by itself, criticise the answers, and return the best.

Asai et al., "Self-RAG: Learning to Retrieve, Generate, and Critique through Self-Reflection", ICLR 2024, section 3.3
(inference) and Algorithm 1, in the short form of the public code: one segment. https://arxiv.org/abs/2310.11511

1. Decide whether the question needs retrieval: P(yes) above a threshold. If not, answer from memory.
2. Retrieve k passages, and answer the question from each by itself.
3. Criticise each candidate: is the passage relevant, does it support the answer, is the answer useful?
4. Return the candidate with the highest weighted sum of these.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import deduplicate, passes
from programs.parts.prediction import drop_from_trace, drop_replies_of, make_prediction, retrieve_passages, try_predict
from programs.parts.probability import YesNoQuestion, YesNoScores, calls_per_probability
from programs.parts.stop_reasons import DONE, NOTHING_FOUND, UNPARSEABLE
from programs.parts.threads import fanout
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.single_step import self_rag as prompts
from signatures.types import Passage, Retriever

RELEVANCE, SUPPORT, USEFULNESS = "relevance", "support", "usefulness"


class Candidate(NamedTuple):
    """An answer, the passage it was read from (None: from memory), and its reply."""

    passage: Passage | None
    reply: dspy.Prediction

    def record(self, critique: dict[str, float | None], score: float) -> dict[str, Any]:
        """Return the candidate for the details of a prediction."""
        id = self.passage.id if self.passage else None
        return {"answer": self.reply.answer.strip(), "passage_id": id, **critique, "score": score}


class SelfRAG(dspy.Module):
    """Answer from each of k passages by itself and choose by P(yes) of relevance, support and usefulness.

    There are no hops; each candidate sees one passage, so that an answer which needs two is found only if one of them
    states it. The citation is the passage of the answer chosen. Fixed contexts are always read, without asking whether
    retrieval is needed. The answers are read by the reader that all programs share.

    `details`: `need` (P(yes) that retrieval is needed; None if not asked or unparseable), `candidates` (those with an
    answer, in reading order: `answer`, `passage_id`, P(yes) of `relevance`, `support` and `usefulness`, None where it
    was unparseable or not asked, and `score`), `probability_mode`.

    `stop_reason`: "nothing found" if retrieval was needed and found nothing (the answer is then from memory), "done"
    otherwise, "unparseable" if no reply could be read.

    Args:
        retrieve: Ranks passages for the question.
        k: Passages, each with its own answer (paper: up to 10 of its own retriever).
        threshold: P(yes) above which retrieval is needed (paper: 0.2).
        relevance_weight: Weight of the passage's relevance (paper: 1).
        support_weight: Weight of the answer's support by the passage (paper: 1).
        usefulness_weight: Weight of the answer's usefulness (paper: 0.5). What has the weight 0 is not asked.
        adaptive: False always retrieves (a mode of the public code).
        closed_book: True adds an answer from memory to the candidates, which has no relevance and no support. In paper
            and code it does not compete once retrieval was needed.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "always": {"adaptive": False},
        "closed_book": {"closed_book": True},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        threshold: Annotated[float, Range(0, 1)] = 0.2,
        relevance_weight: Annotated[float, Range(0, 2)] = 1.0,
        support_weight: Annotated[float, Range(0, 2)] = 1.0,
        usefulness_weight: Annotated[float, Range(0, 2)] = 0.5,
        adaptive: bool = True,
        closed_book: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        # Departure: if no passage yields an answer, there is none; the paper's LM always writes one.
        # Departure: five passages by default, since each takes a prompt for every judgement.
        # Departure: the paper trains one LM for all of this; here an untrained LM gets a prompt for each judgement.
        self.reading = dspy.Predict(ReadAnswer)
        self.memory = dspy.Predict(AnswerFromMemory)
        if adaptive:
            self.need = dspy.Predict(prompts.JudgeNeed)
        self.relevance = dspy.Predict(prompts.JudgeRelevance)
        self.support = dspy.Predict(prompts.JudgeSupport)
        self.usefulness = dspy.Predict(prompts.JudgeUsefulness)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the best candidate, or an answer from memory; fixed `passages` are read without asking for need."""
        # Departure: the paper goes on segment by segment with a beam of two; a short answer is one segment.
        scores, need = YesNoScores(), None
        if self.adaptive and passages is None:
            need = scores.ask({"need": YesNoQuestion(self.need, question=question)})["need"]  # step 1
            if need is not None and (need > 0.5) != passes(need, self.threshold):
                drop_replies_of(self.need)  # a demonstration that says no would contradict the search that follows
            # Departure: an unparseable decision retrieves.
            if need is not None and not passes(need, self.threshold):
                return self._recall(question, need, scores, DONE)
        found = deduplicate(retrieve_passages(self, question, self.k, fixed=passages))
        if not found:  # Departure: the paper does not say what follows; the answer is from memory.
            return self._recall(question, need, scores, NOTHING_FOUND)
        replies, candidates = self._candidates(question, found)  # step 2
        critiques = self._criticise(question, candidates, scores)  # step 3
        sums = list(map(self._score, critiques))
        best = candidates[sums.index(max(sums))] if candidates else None  # step 4; of equal sums the first
        drop_from_trace(*(reply for reply in replies if best is None or reply is not best.reply))
        judged = zip(candidates, critiques, sums, strict=True)
        records = [candidate.record(critique, score) for candidate, critique, score in judged]
        return make_prediction(
            best.reply.answer if best else "",
            stop_reason=DONE if any(replies) else UNPARSEABLE,
            passages=found,
            citations=[best.passage.id] if best and best.passage else [],
            details={"need": need, "candidates": records, "probability_mode": scores.mode},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question with k passages: the decision and all candidates.

        Fixed contexts beyond k take the calls of a candidate each.
        """
        score = calls_per_probability()
        useful = score * (self.usefulness_weight > 0)
        each = 1 + score * ((self.relevance_weight > 0) + (self.support_weight > 0)) + useful
        return score * self.adaptive + self.k * each + self.closed_book * (1 + useful)

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the decision, all candidates, all their scores."""
        return self.adaptive + 2

    def _recall(self, question: str, need: float | None, scores: YesNoScores, stop_reason: str) -> dspy.Prediction:
        """Answer from memory."""
        reply = try_predict(self.memory, question=question)
        details: dict[str, Any] = {"need": need, "candidates": [], "probability_mode": scores.mode}
        if reply is None:
            return make_prediction("", stop_reason=UNPARSEABLE, details=details)
        return make_prediction(reply.answer, stop_reason=stop_reason, details=details)

    def _candidates(
        self, question: str, found: Sequence[Passage]
    ) -> tuple[list[dspy.Prediction | None], list[Candidate]]:
        """Return all replies, and the candidates among them.

        Departure: unparseable replies, "unknown" and refusals, which the paper's LM does not write, are no candidates.
        """
        calls = [partial(try_predict, self.reading, question=question, passages=[passage]) for passage in found]
        sources: list[Passage | None] = list(found)
        if self.closed_book:
            calls.append(partial(try_predict, self.memory, question=question))
            sources.append(None)
        replies = fanout(calls)
        pairs = zip(sources, replies, strict=True)
        return replies, [Candidate(source, reply) for source, reply in pairs if reply and gives_answer(reply.answer)]

    def _criticise(
        self, question: str, candidates: Sequence[Candidate], scores: YesNoScores
    ) -> list[dict[str, float | None]]:
        """Return P(yes) of each aspect of each candidate, all asked in parallel; None if not asked or unparseable."""
        weights = self._weights()
        questions: dict[tuple[int, str], YesNoQuestion] = {}
        for number, (passage, reply) in enumerate(candidates):
            said: dict[str, Any] = {"question": question, "answer": reply.answer.strip()}
            asked = {USEFULNESS: YesNoQuestion(self.usefulness, **said)}
            if passage is not None:
                asked[RELEVANCE] = YesNoQuestion(self.relevance, question=question, passages=[passage])
                asked[SUPPORT] = YesNoQuestion(self.support, passages=[passage], **said)
            questions |= {(number, name): each for name, each in asked.items() if weights[name] > 0}
        judged = scores.ask(questions)
        return [{name: judged.get((number, name)) for name in weights} for number in range(len(candidates))]

    def _weights(self) -> dict[str, float]:
        named = {RELEVANCE: self.relevance_weight, SUPPORT: self.support_weight}
        return {**named, USEFULNESS: self.usefulness_weight}

    def _score(self, critique: dict[str, float | None]) -> float:
        """Return the weighted sum; what is unparseable adds nothing, as in the public code.

        Departure: support is P(yes) of one question, where the paper has fully, partially and not supported with 1, 0.5
        and 0. Usefulness is P(yes) spread from -1 to 1, where the paper has five grades with weights from -1 to 1. The
        probability of the answer itself, which the paper adds, is left out: not every LM gives it.
        """
        useful = critique[USEFULNESS]
        spread = {**critique, USEFULNESS: None if useful is None else 2 * useful - 1}
        return sum(weight * (spread[name] or 0.0) for name, weight in self._weights().items())
