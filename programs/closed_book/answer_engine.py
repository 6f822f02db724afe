"""A hosted answer engine: one call to an LM that searches the web by itself, and names the pages that it cites.

The CoV-RAG paper compares with such an engine, Perplexity: He et al., "Retrieving, Rethinking and Revising: The
Chain-of-Verification Can Improve Retrieval Augmented Generation", Findings of EMNLP 2024, section 4, table 2.
https://arxiv.org/abs/2410.05801

1. Ask the engine, which is the LM of the run, as in `--lm perplexity/sonar`
   (https://docs.perplexity.ai/docs/sonar/openai-compatibility).
2. The pages that it cites are the passages; its marks `[n]` cite them by position.
3. Extract the short answer from the response.

Departure: the paper asked Perplexity's pplx-7b of 2024. An engine is what it is on the day of the run, and so is the
web: only cached replies repeat an answer.
"""

from typing import Any

import dspy

from programs.parts.knobs import set_knobs
from programs.parts.longform import gives_answer, short_answer
from programs.parts.prediction import drop_from_trace, make_prediction, try_predict
from programs.parts.replies.sources import collect_sources, with_sources
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.closed_book.answer_engine import SearchAndAnswer
from signatures.reading import ReadAnswer
from signatures.types import Passage, Retriever


class AnswerEngine(dspy.Module):
    """Ask an LM that searches by itself; the pages that it names are passages and citations.

    There are no hops. The passages are pages of the web: their ids are URLs, their texts what the engine quotes of
    them, often nothing. Marks of `response` are positions in `passages`; a mark without a page is left out, and a
    response without marks cites all pages that the engine named. Any other LM answers from memory: there are no
    passages then. A response that declines is an abstention. `details`: `sources` (how many the engine named, also
    repeats and those that are no web page).

    Args:
        retrieve: Never called; accepted because all programs have the same constructor. `passages` are not shown to
            the engine either.
        short: False skips the call that extracts the short `answer`, for which the engine is asked again (and may
            search again); the response without its marks is the answer.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "one_call": {"short": False}}

    def __init__(self, retrieve: Retriever | None = None, *, short: bool = True):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.searching = dspy.Predict(SearchAndAnswer)
        if short:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the engine's answer with its citations; `passages` are ignored, because the engine finds its own."""
        with collect_sources() as sources:
            reply = try_predict(self.searching, question=question)  # step 1
        details = {"sources": len(sources)}
        if reply is None:
            return make_prediction("", stop_reason=UNPARSEABLE, details=details)
        response, pages, cited = with_sources(reply.response.strip(), sources)  # step 2
        if not gives_answer(response):
            drop_from_trace(reply)  # a response that declines must not become a demo
            cited = []
        # Departure: metrics need a short answer; the reader that all programs share extracts it from the response.
        return make_prediction(
            short_answer(self.reading if self.short else None, question, response),  # step 3
            stop_reason=DONE,
            passages=pages,
            citations=cited,
            response=response,
            details=details,
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the response, and the short answer."""
        return 1 + self.short
