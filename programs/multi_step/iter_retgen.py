"""ITER-RETGEN: a whole generation is the query for the passages that the next whole generation reads.

Shao et al., "Enhancing Retrieval-Augmented Large Language Models with Iterative Retrieval-Generation Synergy", Findings
of EMNLP 2023, section 3. https://arxiv.org/abs/2305.15294

1. Retrieve k passages for the generation of the iteration before, followed by the question; at first for the question
   alone. Passages of earlier iterations are dropped.
2. Generate: reason from these passages to an answer. The last generation is that of the `reader`.
3. After T iterations the answer of the last generation that has one is the answer; nothing stops earlier.

Departure: reasoning and answer are two typed fields instead of one text cut at "the answer is"; the query is both, the
reasoning as the LM wrote it. An instruction takes the place of the paper's demonstrations, which compiling adds.
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import answer_in
from programs.parts.passages import passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.steps.comparison import MOST_CALLS, compared
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.multi_step.iter_retgen import ReasonAndAnswer
from signatures.reading import CompareTwo, ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

DIRECT, THOUGHT = "direct", "thought"


class IterRetGen(dspy.Module):
    """Alternate retrieval and a whole generation, a fixed number of times.

    A hop is one iteration: its question is the query, its answer that of the generation (empty if it was unparseable),
    its passages those that the generation read. `details`: `generations` (the texts used as queries, in order).

    Args:
        retrieve: Ranks passages for generation and question; None if every question has fixed contexts.
        k: Passages per iteration (paper: 5).
        iterations: Retrievals, each followed by a generation (paper: 1 to 7; most of the gain comes with the second).
        reader: Who writes the last generation, whose answer alone is used. "thought" is the paper's: the chain of
            thought, as in the iterations before. "direct" (preset `shared_reader`) is the shared reader: that of other
            strategies here, so that comparisons measure the passages.
        compare: A comparison of two things is decided from one search where it can be, as in `rag`; it then has no
            `details`. The paper does not.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "shared_reader": {"reader": DIRECT},
        "small": {"k": 3, "reader": DIRECT, "compare": True},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        iterations: Annotated[int, Range(1, 7)] = 2,
        reader: Annotated[str, Choice(DIRECT, THOUGHT)] = THOUGHT,
        compare: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.thinking = dspy.Predict(ReasonAndAnswer)
        if reader == DIRECT:
            self.reading = dspy.Predict(ReadAnswer)
        if compare:
            self.comparing = dspy.Predict(CompareTwo)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        if (done := compared(self, question, passages)) is not None:
            return done
        hops: list[Hop] = []
        read: list[Passage] = []
        generations: list[str] = []
        replies: list[dspy.Prediction | None] = []
        generation, answer, stop_reason = "", "", DONE
        while len(hops) < self.iterations:
            query = f"{generation} {question}".strip()
            fixed = passages if not hops or self.retrieve is None else None
            found = retrieve_passages(self, query, self.k, fixed=fixed)  # step 1
            read += found
            last = len(hops) + 1 == self.iterations
            # The shared reader has nothing to read if nothing was found; the chain of thought goes on from memory.
            predictor = self.reading if last and found and self.reader == DIRECT else self.thinking
            reply = try_predict(predictor, passages=found, question=question)  # step 2
            # Departure: after an unparseable generation the question alone is searched for. The answer is that of the
            # last generation that has one: "unknown" and refusals are not answers, and no part of a query.
            said = answer_in(reply)
            replies.append(reply)
            answer = said or answer
            stop_reason = DONE if reply else UNPARSEABLE
            hops.append(settled(Hop(question=query, answer=said, passage_ids=[passage.id for passage in found])))
            if not last:
                generation = f"{reply.reasoning.strip()} {said}".strip() if reply else ""
                generations.append(generation)
        # Departure: generations with another answer leave the trace, so as not to become demonstrations.
        drop_from_trace(*(reply for reply in replies if reply and same_words(reply.answer) != same_words(answer)))
        return make_prediction(  # step 3
            answer,
            stop_reason=stop_reason,
            hops=hops,
            passages=read,
            citations=passages_supporting(question, answer, found),
            details={"generations": generations},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: one for each iteration, and a comparison's."""
        return self.iterations + self.compare * MOST_CALLS
