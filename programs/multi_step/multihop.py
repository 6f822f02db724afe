"""DSPy's multi-hop program: write a query, retrieve, repeat; then read all passages.

Khattab et al., "Baleen: Robust Multi-Hop Reasoning at Scale via Condensed Retrieval", NeurIPS 2021, and its simplified
form in Khattab et al., "DSPy: Compiling Declarative Language Model Calls into Self-Improving Pipelines", ICLR 2024,
section 7 (HotPotQA). https://arxiv.org/abs/2310.03714

DSPy compiles it by bootstrapping with a metric of the whole trajectory, here `multihop_trace[em]`
(`optimizers.metrics.families.trajectories`).
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import deduplicate, is_no_item, passages_supporting
from programs.parts.prediction import (
    DONE,
    UNPARSEABLE,
    drop_from_trace,
    make_prediction,
    retrieve_passages,
    settled,
    try_predict,
)
from programs.parts.steps.comparison import MOST_CALLS, compared
from signatures.multi_step.multihop import WriteQuery
from signatures.reading import REASONING, CompareTwo, ReadAnswer
from signatures.types import Hop, Passage, Retriever

REASONED, DIRECT = "reasoned", "direct"


class MultiHop(dspy.Module):
    """Write one query per hop from the passages so far, then read the answer from all passages.

    The question of a hop is its query; its answer is empty, since only the last step answers.

    Args:
        retrieve: Ranks passages for a query.
        k: Passages per hop (paper: 3).
        max_hops: Queries written (paper: 2).
        reader: "reasoned", the paper's, reasons before it answers; "direct" (preset `small`) is the reader that all
            programs share.
        compare: A comparison of two things is decided from one search where it can be, as in `rag`; it then has no
            `details`. The paper does not.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "small": {"k": 2, "reader": DIRECT, "compare": True}}

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 3,
        max_hops: Annotated[int, Range(1, 8)] = 2,
        reader: Annotated[str, Choice(REASONED, DIRECT)] = REASONED,
        compare: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.querying = dspy.ChainOfThought(WriteQuery)
        self.reading = dspy.Predict(ReadAnswer) if reader == DIRECT else dspy.ChainOfThought(ReadAnswer, REASONING)
        if compare:
            self.comparing = dspy.Predict(CompareTwo)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        if (done := compared(self, question, passages)) is not None:
            return done
        found: list[Passage] = []
        hops: list[Hop] = []
        if passages is not None:
            found = list(passages)
            hops.append(settled(Hop(question=question, answer="", passage_ids=[passage.id for passage in found])))
        while len(hops) < self.max_hops and (passages is None or self.retrieve is not None):
            step = try_predict(self.querying, question=question, passages=found)
            # Departure: without a query ("None", or an unparseable reply) the question is searched for, so that no hop
            # is lost.
            query = step.query if step and not is_no_item(step.query) else question
            if query is question:
                drop_from_trace(step)
            fresh = retrieve_passages(self, query, self.k)
            hops.append(settled(Hop(question=query, answer="", passage_ids=[passage.id for passage in fresh])))
            found = deduplicate([*found, *fresh])
        final = try_predict(self.reading, question=question, passages=found)
        answer, stop_reason = (final.answer, DONE) if final else ("", UNPARSEABLE)
        cited = passages_supporting(question, answer, found)
        return make_prediction(answer, stop_reason=stop_reason, hops=hops, passages=found, citations=cited)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: a query per hop, the reader's, a comparison's."""
        return self.max_hops + 1 + self.compare * MOST_CALLS
