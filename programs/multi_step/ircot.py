"""IRCoT: each sentence of the chain of thought is the query for the passages that the next sentence reads.

Trivedi et al., "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions",
ACL 2023, section 3 (the loop, the reader), section 5 (without a separate reader). https://arxiv.org/abs/2212.10509
Where the paper's text is silent, its public code decides: https://github.com/StonyBrookNLP/ircot

1. Retrieve k passages for the question.
2. Reason: from all passages and the thought so far, write on; only the first sentence is kept. If it says "the answer
   is", or if it is the last one allowed, go to 4.
3. Retrieve k passages for that sentence, add those that are new, up to the cap; go to 2.
4. A separate reader answers the question from all passages.

Departure: an instruction takes the place of the paper's demonstrations, which compiling adds; and paragraphs are not
cut at 350 words. The public code also deletes interrogatives from queries and searches for no sentence that begins with
"So" or "Thus"; the paper's text does neither.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import answer_in
from programs.parts.passages import deduplicate, passages_stating
from programs.parts.predict import drop_from_trace, try_predict
from programs.parts.prediction import make_prediction, retrieve_passages, settled
from programs.parts.reasoning.thought import join_sentences, next_sentence, stated_answer
from programs.parts.stop_reasons import CAP, FINISHED, REPEATED, UNPARSEABLE
from signatures.multi_step.ircot import ContinueThought
from signatures.reading import ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

DIRECT, COT, THOUGHT = "direct", "cot", "thought"


class IRCoT(dspy.Module):
    """Interleave the sentences of a chain of thought with retrieval, then read the answer from all passages.

    A hop is one sentence: its question is the query (the question, then the sentence before), its answer the sentence
    written next (empty if there was none), its passages those that the query added. `details`: `thought` (all
    sentences) and `said` (the answer that the thought ends with; empty if it states none).

    Args:
        retrieve: Ranks passages for the question and for sentences; None if every question has fixed contexts, over
            which the whole thought is then written.
        k: Passages per retrieval (paper: tuned on a development set among 2, 4, 6 and 8).
        cap: Passages in all (paper: 15); fixed contexts are all kept and count towards it.
        max_sentences: Sentences of the thought (public code: 10).
        reader: Who answers. "direct", the shared reader, is the default: it is the paper's for its smaller LMs, and
            that of other strategies here, so that comparisons measure the passages. "cot" reasons anew before it
            answers (the paper's reader for its largest LM); "thought" makes no call and takes what the thought says
            (section 5, without a separate reader).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "cot_reader": {"reader": COT},
        "no_reader": {"reader": THOUGHT},
        "small": {"k": 2, "cap": 6, "max_sentences": 5},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 4,
        cap: Annotated[int, Range(1, 30)] = 15,
        max_sentences: Annotated[int, Range(1, 20)] = 10,
        reader: Annotated[str, Choice(DIRECT, COT, THOUGHT)] = DIRECT,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.thinking = dspy.Predict(ContinueThought)
        if reader == DIRECT:
            self.reading = dspy.Predict(ReadAnswer)
        elif reader == COT:
            self.reading = dspy.ChainOfThought(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        fresh = deduplicate(retrieve_passages(self, question, min(self.k, self.cap), fixed=passages))  # step 1
        found = list(fresh)
        hops: list[Hop] = []
        thought: list[str] = []
        stop_reason = CAP
        while len(thought) < self.max_sentences:
            query = thought[-1] if thought else question
            if thought:
                fresh = self._search(query, found)  # step 3
                found = [*found, *fresh]
            written = join_sentences(thought)
            reply = try_predict(self.thinking, passages=found, question=question, reasoning=written)  # step 2
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
        said = stated_answer(thought[-1]) if thought else None
        answer = self._read(question, found, said or "", thought)  # step 4
        if said and same_words(said) != same_words(answer):
            drop_from_trace(reply)  # a sentence that states another answer must not become a demo
        return make_prediction(
            answer,
            stop_reason=stop_reason,
            hops=hops,
            passages=found,
            citations=passages_stating(answer, found),
            details={"thought": join_sentences(thought), "said": said or ""},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: one for each sentence, and the reader's."""
        return self.max_sentences + (self.reader != THOUGHT)

    def _search(self, sentence: str, found: Sequence[Passage]) -> list[Passage]:
        """Return the passages for a sentence that are new, as many as the cap leaves room for."""
        room = self.cap - len(found)
        if self.retrieve is None or room <= 0:
            return []
        known = {passage.id for passage in found}
        ranked = deduplicate(retrieve_passages(self, sentence, self.k))
        return [passage for passage in ranked if passage.id not in known][:room]

    def _read(self, question: str, found: list[Passage], said: str, thought: Sequence[str]) -> str:
        """Return the reader's answer; without a reader or passages, what the thought says, or else all of it.

        Departure: if the reader's reply is unparseable, or no answer, what the thought says is the answer.
        """
        if self.reader == THOUGHT or not found:
            return said or join_sentences(thought)
        reply = try_predict(self.reading, passages=found, question=question)
        answer = answer_in(reply)
        if not answer:
            drop_from_trace(reply)
        return answer or said
