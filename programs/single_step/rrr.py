"""Rewrite-retrieve-read: search for queries that the LM writes, not for the question, then read.

Ma et al., "Query Rewriting for Retrieval-Augmented Large Language Models", EMNLP 2023, section 3 (the frozen rewriter;
the trainable one of section 3.2 is left to compiling `rewriting`). https://arxiv.org/abs/2305.14283

1. Rewrite: think about what knowledge the question needs, and write a search query for each piece of it.
2. Retrieve k passages for each query; those of the first query come first.
3. Read the answer from all of them.

The preset `langchain` is the form in LangChain's cookbook, with which CoV-RAG was compared: one query, written without
reasoning, and an answer in full sentences.
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import read_response, short_answer
from programs.parts.passages import deduplicate, new_items, passages_supporting
from programs.parts.prediction import (
    drop_from_trace,
    make_prediction,
    read_or_recall,
    retrieve_passages,
    retrieve_rankings,
    try_predict,
)
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.reading import ReadAnswer
from signatures.single_step.rrr import AnswerFromPassagesAlone, WriteBetterQuery, WriteQueries
from signatures.types import Passage, Retriever


class RRR(dspy.Module):
    """Rewrite the question into search queries, retrieve k passages for each, and read the answer from all.

    There are no hops: the queries are written at once, before anything is read. The citations are the passages that
    support the answer. With fixed contexts nothing is searched for, so no query is written; where there is nothing to
    read, the answer is from memory, as that of `rag` is. `details` of a prediction: `queries` (those searched for).

    Args:
        retrieve: Ranks passages for a query.
        k: Passages of each query (the paper: what Bing returns, as snippets or as texts cut by BM25).
        rewrite: "several" writes any number of queries after reasoning (paper); "one" a single query, without
            (LangChain).
        max_queries: Queries searched for at most (the paper sets no limit).
        reader: "short" reads the short answer with the reader that all programs share, as the paper's own prompt for
            one entity does (paper); "long" writes full sentences from the passages alone, of which that reader
            extracts the short answer (LangChain).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "langchain": {"rewrite": "one", "reader": "long"},
        "small": {"k": 2, "max_queries": 2},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        rewrite: Annotated[str, Choice("several", "one")] = "several",
        max_queries: Annotated[int, Range(1, 8)] = 4,
        reader: Annotated[str, Choice("short", "long")] = "short",
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        # Departure: the paper shows the rewriter one demonstration and the reader some; here compiling adds them.
        if rewrite == "several":
            self.rewriting = dspy.ChainOfThought(WriteQueries)
        else:
            self.querying = dspy.Predict(WriteBetterQuery)
        if reader == "long":
            self.answering = dspy.Predict(AnswerFromPassagesAlone)
        self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer read from what the queries find, or from fixed `passages`."""
        queries: list[str] = []
        if passages is not None or self.retrieve is None:
            found = deduplicate(retrieve_passages(self, question, self.k, fixed=passages))
        else:
            queries = self._rewrite(question)  # step 1
            rankings = retrieve_rankings(self, queries, self.k)  # step 2
            found = deduplicate(passage for ranking in rankings for passage in ranking)
        answer, response, stop_reason = self._read(question, found)  # step 3
        return make_prediction(
            answer,
            stop_reason=stop_reason,
            passages=found,
            citations=passages_supporting(question, answer, found),
            response=response,
            details={"queries": queries},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the queries, and one or two for the answer."""
        return 2 + (self.reader == "long")

    def _rewrite(self, question: str) -> list[str]:
        """Return the queries; the question itself if the reply is unparseable or has none."""
        reply = try_predict(self.rewriting if self.rewrite == "several" else self.querying, question=question)
        if reply is None:
            return [question]
        written = reply.queries if self.rewrite == "several" else reply.query.strip().splitlines()[:1]
        # Departure: repeated queries, lines that are not queries, and those beyond `max_queries` are not searched
        # for; the paper takes all.
        queries = new_items(written, [])[: self.max_queries]
        if not queries:
            drop_from_trace(reply)  # so as not to become a demo; one of which some are used stays whole
        return queries or [question]

    def _read(self, question: str, found: list[Passage]) -> tuple[str, str | None, str]:
        """Return the short answer, the long one if there is any, and why the strategy stopped."""
        if self.reader == "short" or not found:
            step = read_or_recall(self.reading, question, found)
            return (step.answer, None, DONE) if step else ("", None, UNPARSEABLE)
        response = read_response(self.answering, question, found)
        if response is None:
            return "", None, UNPARSEABLE
        # Departure: LangChain's answer is the long text; metrics need a short one.
        return short_answer(self.reading, question, response), response, DONE
