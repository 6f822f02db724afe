"""FLARE: look ahead by one sentence, and retrieve for it only if the LM is not confident of its words.

Jiang et al., "Active Retrieval Augmented Generation", EMNLP 2023, section 3.2 (FLARE-direct: confidence-based
retrieval, implicit queries by masking). https://arxiv.org/abs/2305.06983

1. Retrieve k passages for the question, and write the first sentence from them.
2. Draft the next sentence without passages. If every token is at least as probable as `confidence`, keep it; go to 4.
3. Else leave out the tokens less probable than `mask_below`, retrieve k passages for the rest, and write the sentence
   again from these passages alone.
4. If it says "the answer is", that is the answer; else go to 2, up to `max_sentences`.

Departure: an instruction takes the place of the paper's demonstrations, which compiling adds. Explicit queries, which
the paper asks an LM for, are not built. There is no preset `code`: the public configuration for 2WikiMultihopQA has the
values of the paper, but its drafts see the passages found before, so that the first sentence has one, too; it retrieves
at the threshold, too, and it writes confident sentences again.
Departure: sentences are bounded, not tokens (paper: 256, and 64 for a draft).
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import read_answer
from programs.parts.passages import deduplicate, passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.reasoning.thought import drop_overruled, join_sentences, next_sentence, stated_answer
from programs.parts.steps.comparison import MOST_CALLS, compared
from programs.parts.stop_reasons import CAP, FINISHED, REPEATED, UNPARSEABLE
from programs.parts.token_probabilities import character_probabilities, masked, try_predict_scored
from signatures.multi_step.flare import DraftSentence, WriteSentence
from signatures.reading import CompareTwo, ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

READ, CONFIDENT, REWRITTEN, KEPT = "read", "confident", "rewritten", "kept"
DIRECT, THOUGHT = "direct", "thought"


class FLARE(dspy.Module):
    """Write a chain of thought, and retrieve before a sentence only if the LM's draft of it is not confident.

    A hop is one sentence: its question is the query (the question itself where nothing was searched for), its answer
    the sentence, its draft the one written without passages. Its verdict: "read" (the first sentence), "confident" (the
    draft was), "rewritten" (it was not), "kept" (it was not, but no token was probable enough for a query, nothing was
    found, or what was written from the passages could not be used), None (there was no sentence). `details`: `thought`
    (all sentences), `said` (the answer that it ends with; empty if it states none) and `confidences` (of each draft the
    least probability of its tokens, in [0, 1]; None without log-probabilities).

    It needs an LM that gives log-probabilities (its mode of P(yes) is "logprobs"). Departure: with any other LM, and
    where those of a draft cannot be read, no draft is confident, and the whole of it is the query.

    Args:
        retrieve: Ranks passages for the question and for drafts; None if every question has fixed contexts.
        k: Passages per retrieval (paper: 2 on 2WikiMultihopQA, 3 on StrategyQA).
        confidence: Every token of a draft that is kept has at least this probability (paper: 0.8 on 2WikiMultihopQA,
            0.4 on StrategyQA); 0 never retrieves again, with log-probabilities.
        mask_below: Tokens of a draft that are less probable are no part of the query (paper: 0.4); 0 masks none.
        max_sentences: Sentences of the thought (the paper bounds its tokens: 256).
        reader: Who answers. "thought" is the paper's: what the thought says, and the shared reader only where it says
            nothing. "direct" (preset `shared_reader`) is the shared reader with all passages: that of other strategies
            here, so that comparisons measure the passages.
        compare: A comparison of two things is decided from one search where it can be, as in `rag`; it then has no
            `details`. The paper does not.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "strategyqa": {"k": 3, "confidence": 0.4},
        "shared_reader": {"reader": DIRECT},
        "small": {"max_sentences": 5, "reader": DIRECT, "compare": True},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 2,
        confidence: Annotated[float, Range(0, 1)] = 0.8,
        mask_below: Annotated[float, Range(0, 1)] = 0.4,
        max_sentences: Annotated[int, Range(1, 20)] = 10,
        reader: Annotated[str, Choice(DIRECT, THOUGHT)] = THOUGHT,
        compare: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.writing = dspy.Predict(WriteSentence)
        self.drafting = dspy.Predict(DraftSentence)
        # Departure: for `direct`, and where the thought states none; the paper takes the answer that it states.
        self.reading = dspy.Predict(ReadAnswer)
        if compare:
            self.comparing = dspy.Predict(CompareTwo)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        if (done := compared(self, question, passages)) is not None:
            return done
        read = deduplicate(retrieve_passages(self, question, self.k, fixed=passages))  # step 1
        fixed = passages if self.retrieve is None else None
        hops: list[Hop] = []
        thought: list[str] = []
        confidences: list[float | None] = []
        stop_reason = CAP
        while len(thought) < self.max_sentences:
            if not thought and read:
                hop, reply = self._write_first(question, read)
            else:
                hop, reply, found, confidence = self._look_ahead(question, thought, fixed)
                read = deduplicate([*read, *found])
                confidences.append(confidence)
            hops.append(settled(hop))
            # Departure: a sentence that is empty, unparseable or only repeats the thought ends it.
            if not hop.answer:
                stop_reason = REPEATED if reply else UNPARSEABLE
                break
            thought.append(hop.answer)
            if stated_answer(hop.answer) is not None:  # step 4
                stop_reason = FINISHED
                break
        said = (stated_answer(thought[-1]) if thought else None) or ""
        answer = self._answer(question, read, said, thought)
        drop_overruled(reply, thought, answer)
        return make_prediction(
            answer,
            stop_reason=stop_reason,
            hops=hops,
            passages=read,
            citations=passages_supporting(question, answer, read),
            details={"thought": join_sentences(thought), "said": said, "confidences": confidences},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: two for each sentence, and the reader's.

        The first sentence takes two only if the first retrieval finds nothing, or an empty context is given.
        """
        return 2 * self.max_sentences + 1 + self.compare * MOST_CALLS

    def _write_first(self, question: str, found: list[Passage]) -> tuple[Hop, dspy.Prediction | None]:
        """Return the first sentence, written from passages for the question, and its reply; None if unparseable."""
        reply = try_predict(self.writing, passages=found, question=question, reasoning="")
        sentence = next_sentence(reply.sentence, []) if reply else ""
        if not sentence:
            drop_from_trace(reply)
        verdict = READ if sentence else None
        return Hop(question=question, answer=sentence, passage_ids=_ids(found), verdict=verdict), reply

    def _look_ahead(
        self, question: str, thought: Sequence[str], fixed: list[Passage] | None
    ) -> tuple[Hop, dspy.Prediction | None, list[Passage], float | None]:
        """Return the next sentence, its reply (None if unparseable), the passages read, the draft's confidence."""
        written = join_sentences(thought)
        reply, content = try_predict_scored(self.drafting, question=question, reasoning=written)  # step 2
        draft = next_sentence(reply.sentence, thought) if reply else ""
        if not draft:
            drop_from_trace(reply)
            return Hop(question=question, answer=""), reply, [], None
        probabilities = character_probabilities(draft, content)
        least = min(probabilities) if probabilities else None
        if least is not None and least >= self.confidence:
            return Hop(question=question, answer=draft, draft=draft, verdict=CONFIDENT), reply, [], least
        query = masked(draft, probabilities, self.mask_below) if probabilities else draft  # step 3
        # As in the public code: with every word masked there is nothing to search for, and the draft is kept.
        found = retrieve_passages(self, query, self.k, fixed=fixed) if same_words(query) else []
        again = try_predict(self.writing, passages=found, question=question, reasoning=written) if found else None
        sentence = next_sentence(again.sentence, thought) if again else ""
        # Departure: an unparseable reply, or one that is not a sentence, leaves the draft.
        drop_from_trace(reply if sentence else again)  # of the two the one that does not count is no demo
        hop = Hop(
            question=query if same_words(query) else question,
            answer=sentence or draft,
            draft=draft,
            passage_ids=_ids(found),
            verdict=REWRITTEN if sentence else KEPT,
        )
        return hop, again if sentence else reply, list(found), least

    def _answer(self, question: str, read: list[Passage], said: str, thought: Sequence[str]) -> str:
        """Return what the thought says, or the shared reader's answer; without passages, all of the thought.

        Departure: the paper does not say what the answer is if the thought states none; here the reader gives one.
        """
        if read and (self.reader == DIRECT or not said):
            return read_answer(self.reading, question, read) or said
        return said or join_sentences(thought)


def _ids(passages: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in passages]
