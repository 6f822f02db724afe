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

The loop is in `programs/parts/steps/interleaving.py`, since Adaptive-RAG takes these steps, too.
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.steps.comparison import MOST_CALLS, compared
from programs.parts.steps.interleaving import conclude_thought, interleave
from signatures.multi_step.ircot import ContinueThought
from signatures.reading import REASONING, CompareTwo, ReadAnswer
from signatures.types import Passage, Retriever

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
            that of other strategies here, so that comparisons measure the passages. "cot" reasons again before it
            answers (the paper's reader for its largest LM); "thought" makes no call and takes what the thought says
            (section 5, without a separate reader).
        compare: A comparison of two things is decided from one search where it can be, as in `rag`; it then has no
            `details`. The paper does not.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "cot_reader": {"reader": COT},
        "no_reader": {"reader": THOUGHT},
        "small": {"k": 2, "cap": 6, "max_sentences": 5, "compare": True},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 4,
        cap: Annotated[int, Range(1, 30)] = 15,
        max_sentences: Annotated[int, Range(1, 20)] = 10,
        reader: Annotated[str, Choice(DIRECT, COT, THOUGHT)] = DIRECT,
        compare: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.thinking = dspy.Predict(ContinueThought)
        if reader == DIRECT:
            self.reading = dspy.Predict(ReadAnswer)
        elif reader == COT:
            self.reading = dspy.ChainOfThought(ReadAnswer, REASONING)
        if compare:
            self.comparing = dspy.Predict(CompareTwo)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        if (done := compared(self, question, passages)) is not None:
            return done
        knobs = {"k": self.k, "cap": self.cap, "most": self.max_sentences}
        done = interleave(self, question, **knobs, fixed=passages)  # steps 1 to 3
        # Departure: if the reader's reply is unparseable, or no answer, what the thought says is the answer.
        return conclude_thought(None if self.reader == THOUGHT else self.reading, question, done)  # step 4

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: a sentence each, the reader's, a comparison's."""
        return self.max_sentences + (self.reader != THOUGHT) + self.compare * MOST_CALLS
