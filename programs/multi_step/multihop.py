"""DSPy's multi-hop programs: write a query, retrieve, repeat; then read all passages, or notes that were taken of them.

Khattab et al., "Baleen: Robust Multi-Hop Reasoning at Scale via Condensed Retrieval", NeurIPS 2021, and its simplified
form in Khattab et al., "DSPy: Compiling Declarative Language Model Calls into Self-Improving Pipelines", ICLR 2024,
section 7 (HotPotQA). https://arxiv.org/abs/2310.03714

Its two public forms that carry less than all passages from hop to hop, as Baleen does, are presets: `hover`, of DSPy's
tutorial "Multi-Hop Retrieval" (https://dspy.ai/tutorials/multihop_search/), takes notes and names the articles that a
claim needs; `gepa`, of the GEPA paper's HotpotQA experiment (https://arxiv.org/abs/2507.19457, section 4), summarizes
the passages of each hop and answers from the summaries. `verihop reproduce dspy` and `gepa` compile them.

Departures of these two: only titles of passages that were retrieved count, in the order in which they were named (the
tutorial takes any text, in the order of a set); one summarizer writes all summaries (GEPA's has one for each hop).

DSPy compiles it by bootstrapping with a metric of the whole trajectory, here `multihop_trace[em]`
(`optimizers.metrics.families.trajectories`).
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import deduplicate, is_no_item, passages_supporting
from programs.parts.prediction import drop_from_trace, make_prediction, recall, retrieve_passages, settled, try_predict
from programs.parts.steps.comparison import MOST_CALLS, compared
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.multi_step.multihop import AnswerFromNotes, SummarizePassages, TakeNotes, WriteNextQuery, WriteQuery
from signatures.reading import REASONING, CompareTwo, ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

REASONED, DIRECT = "reasoned", "direct"
PASSAGES, NOTES, SUMMARIES = "passages", "notes", "summaries"


class MultiHop(dspy.Module):
    """Write one query per hop from the passages so far, then read the answer from all passages.

    The question of a hop is its query; its answer is empty, since only the last step answers. With nothing to read
    (`passages=[]`, or searches that find nothing) it answers from memory, as the program `standard`. `details`, with
    notes or summaries: `notes`.

    Args:
        retrieve: Ranks passages for a query.
        k: Passages per hop (paper: 3).
        max_hops: Queries written (paper: 2).
        reader: "reasoned", the paper's, reasons before it answers; "direct" (preset `small`) is the reader that all
            programs share.
        compare: A comparison of two things is decided from one search where it can be, as in `rag`; it then has no
            `details`. The paper does not.
        carry: What the next query and the answer are written from: "passages", all of them; "notes", which are taken of
            each hop's passages (the passages returned are then those that the LM names as needed); or "summaries", one
            of each hop, where the first query is the question itself.
        conclude: Without it no answer is read: the passages are the result.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "small": {"k": 2, "reader": DIRECT, "compare": True},
        "hover": {"k": 10, "max_hops": 4, "carry": NOTES, "conclude": False},
        "gepa": {"k": 7, "max_hops": 2, "carry": SUMMARIES},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 3,
        max_hops: Annotated[int, Range(1, 8)] = 2,
        reader: Annotated[str, Choice(REASONED, DIRECT)] = REASONED,
        compare: bool = False,
        carry: Annotated[str, Choice(PASSAGES, NOTES, SUMMARIES)] = PASSAGES,
        conclude: bool = True,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.querying = dspy.ChainOfThought(WriteQuery if carry == PASSAGES else WriteNextQuery)
        if carry != PASSAGES:
            self.noting = dspy.ChainOfThought(TakeNotes if carry == NOTES else SummarizePassages)
        if conclude:
            read = ReadAnswer if carry == PASSAGES else AnswerFromNotes
            self.reading = dspy.Predict(read) if reader == DIRECT else dspy.ChainOfThought(read, REASONING)
        if compare:
            self.comparing = dspy.Predict(CompareTwo)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        if (done := compared(self, question, passages)) is not None:
            return done
        if self.carry != PASSAGES:
            return self._from_notes(question, passages)
        found: list[Passage] = []
        hops: list[Hop] = []
        if passages is not None:
            found = list(passages)
            hops.append(settled(Hop(question=question, answer="", passage_ids=[passage.id for passage in found])))
        while len(hops) < self.max_hops and (passages is None or self.retrieve is not None):
            query = self._query(question, passages=found)
            fresh = retrieve_passages(self, query, self.k)
            hops.append(settled(Hop(question=query, answer="", passage_ids=[passage.id for passage in fresh])))
            found = deduplicate([*found, *fresh])
        return self._concluded(question, found, hops, passages=found)

    def _from_notes(self, question: str, fixed: list[Passage] | None) -> dspy.Prediction:
        notes: list[str] = []
        found: list[Passage] = []
        named: list[Passage] = []
        hops: list[Hop] = []
        while not hops or (len(hops) < self.max_hops and (fixed is None or self.retrieve is not None)):
            given = fixed if not hops else None
            asked = not hops and (given is not None or self.carry == SUMMARIES)
            query = question if asked else self._query(question, notes=notes)
            fresh = retrieve_passages(self, query, self.k, fixed=given)
            hops.append(settled(Hop(question=query, answer="", passage_ids=[passage.id for passage in fresh])))
            found = deduplicate([*found, *fresh])
            taken = try_predict(self.noting, question=question, notes=list(notes), passages=fresh) if fresh else None
            if taken is None:  # nothing to note, or the hop is lost; the next query is written from the notes before
                continue
            notes += taken.new_notes if self.carry == NOTES else [taken.summary]
            named += _titled(taken.titles, found) if self.carry == NOTES else fresh
        return self._concluded(question, deduplicate(named), hops, details={"notes": notes}, notes=notes)

    def _query(self, question: str, **known: Any) -> str:
        step = try_predict(self.querying, question=question, **known)
        # Departure: without a query ("None", or an unparseable reply) the question is searched for, so that no hop is
        # lost.
        if step and not is_no_item(step.query):
            return str(step.query)
        drop_from_trace(step)
        return question

    def _concluded(
        self, question: str, found: list[Passage], hops: list[Hop], details: dict[str, Any] | None = None, **known: Any
    ) -> dspy.Prediction:
        final = None
        if self.conclude:
            read = any(hop.passage_ids for hop in hops)
            final = try_predict(self.reading, question=question, **known) if read else recall(question)
        answer = final.answer if final else ""
        cited = found if self.carry == NOTES else None  # which the LM has named
        return make_prediction(
            answer,
            stop_reason=DONE if final or not self.conclude else UNPARSEABLE,
            hops=hops,
            passages=found,
            citations=[passage.id for passage in cited] if cited else passages_supporting(question, answer, found),
            abstained=None if self.conclude else False,
            details=details,
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: queries, notes, the reader's, a comparison's."""
        noting = {PASSAGES: 0, NOTES: self.max_hops, SUMMARIES: self.max_hops - 1}  # the first query costs none
        return self.max_hops + noting[self.carry] + self.conclude + self.compare * MOST_CALLS


def _titled(titles: list[str], passages: list[Passage]) -> list[Passage]:
    """Return the passages with these titles, in the order of the titles."""
    return [
        passage
        for title in titles
        if same_words(title)
        for passage in passages
        if same_words(passage.title) == same_words(title)
    ]
