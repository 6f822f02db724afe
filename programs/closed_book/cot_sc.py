"""Self-consistency: sample several chains of thought from memory, and let the majority of their answers decide.

Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", ICLR 2023, sections 2 (sample,
then marginalise out the reasoning by a majority vote) and 3.1 (samples, temperature). https://arxiv.org/abs/2203.11171

1. Sample `samples` chains of thought for the question, independently of each other.
2. Take the short answer of each; a reply without one does not vote.
3. Return the most frequent answer, with the reasoning of the earliest chain that gave it.

Departure: the paper shows worked examples before the question; here demonstrations come from compiling.
"""

from functools import partial
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.prediction import drop_from_trace, make_prediction, try_predict
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from programs.parts.threads import fanout
from signatures.reading import REASONING, AnswerFromMemory
from signatures.types import Passage, Retriever
from signatures.voting import answer_key, majority


class CoTSC(dspy.Module):
    """Reason several times from memory, and return the answer that most chains of thought end with.

    There are no hops. `response` is the reasoning of the earliest chain with that answer, and the answer. `details`:
    `answers` (of each sample, in order; empty if its reply was unparseable) and `agreement` (share of all samples that
    gave the answer returned; 0 if none had a vote: then the program abstains).

    Args:
        retrieve: Never called; accepted because all programs have the same constructor.
        samples: Chains of thought (paper: 40; later multi-hop papers that compare with it: 5).
        temperature: Sampling temperature of the chains (paper: 0.7 for GPT-3 and PaLM, 0.5 for smaller LMs).
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "five": {"samples": 5}}

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        samples: Annotated[int, Range(1, 40)] = 40,
        temperature: Annotated[float, Range(0.1, 1.5)] = 0.7,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        # Departure: reasoning and answer are two typed fields instead of one text cut at "the answer is".
        self.answering = dspy.ChainOfThought(AnswerFromMemory, REASONING)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer of the majority; `passages` are ignored, because the program is closed-book."""
        replies = fanout([partial(self._sample, question, number + 1) for number in range(self.samples)])  # step 1
        answers = [reply.answer.strip() if reply else "" for reply in replies]
        keys = list(map(answer_key, answers))  # step 2
        # Departure: the paper has no rule for ties; of equally frequent answers the earliest sample's is returned.
        chosen = majority(keys)  # step 3
        best = replies[chosen.place] if any(keys) else None
        # Departure: chains that were outvoted, or have no vote, leave the trace, so as not to become demonstrations.
        drop_from_trace(
            *(reply for reply, key in zip(replies, keys, strict=True) if not key or key != keys[chosen.place])
        )
        if best is None:  # Departure: the paper does not say what becomes of a question for which no chain votes.
            stop_reason = DONE if any(replies) else UNPARSEABLE
            return make_prediction("", stop_reason=stop_reason, details={"answers": answers, "agreement": 0.0})
        return make_prediction(
            best.answer,
            response=f"{best.reasoning}\n{best.answer}".strip(),
            details={"answers": answers, "agreement": chosen.agreement},
        )

    def max_calls(self) -> int:
        """Return the number of LM calls for one question, which is fixed."""
        return self.samples

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the samples are asked in parallel."""
        return 1

    def _sample(self, question: str, number: int) -> dspy.Prediction | None:
        """Return one chain of thought; None if the reply is unparseable.

        Each is a separate call, since some servers ignore `n`, and has its own `rollout_id`: neither a cache nor a
        seed makes two of them one.
        """
        # Departure: the paper also cuts off all but the 40 likeliest tokens, for some of its LMs.
        sampling = {"temperature": self.temperature, "rollout_id": number}
        return try_predict(self.answering, config=sampling, question=question)
