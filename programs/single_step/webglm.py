"""WebGLM: rerank the paragraphs of a search, and answer at length from the best, with citations.

Liu et al., "WebGLM: Towards An Efficient Web-Enhanced Question Answering System with Human Preferences", KDD 2023: the
two-stage retriever and the generator, and the public code, which is one pass. https://arxiv.org/abs/2306.07906

1. Search: retrieve many paragraphs for the question.
2. Rank them by their similarity to the question and keep the k best, the references.
3. Answer from the references in full sentences, each with the numbers of the references it rests on.
4. Extract the short answer from the response.
"""

from typing import Annotated, Any

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import cited_passages, read_response, short_answer
from programs.parts.passages import closest, deduplicate, titled_text
from programs.parts.prediction import make_prediction, retrieve_passages
from programs.parts.stop_reasons import DONE, NOTHING_FOUND, UNPARSEABLE
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.types import Passage, Retriever, Similarity


class WebGLM(dspy.Module):
    """Answer from the k references closest to the question, in sentences with marks; then extract a short answer.

    There are no hops. `response` is the answer with marks, whose numbers are positions in `passages`; `citations` are
    what they cite. A response that declines is an abstention; so is a search that finds nothing, as in the public code,
    for which no LM is asked ("nothing found").

    Args:
        retrieve: Ranks paragraphs for the question; any retriever, or recorded searches of the web.
        similarity: Compares question and paragraphs, with their titles (the paper: a Contriever trained on the choices
            of an LM). Without one the first k of the retriever are the references, and fixed contexts are all read.
        k: References (paper: 5).
        candidates: Paragraphs retrieved for the ranking (paper: all those of the pages that a web search returns, up to
            ten in the code). With a similarity only.
        short: False skips the call that extracts the short `answer`; the response without its marks is the answer.
    """

    PRESETS: dict[str, dict[str, Any]] = {"paper": {}, "small": {"k": 3}}

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        similarity: Similarity | None = None,
        k: Annotated[int, Range(1, 20)] = 5,
        candidates: Annotated[int, Range(1, 100)] = 50,
        short: bool = True,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.similarity = similarity
        # Departure: the paper's generator is a GLM trained on answers with citations, whose prompt is the references
        # and the question alone; an untrained LM needs to be told what to write. The scorer of answers by human
        # preferences needs such preferences; the public code has none, and neither has this program.
        self.answering = dspy.Predict(CiteAnswer)
        if short:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the response with its citations; fixed `passages` replace what the search finds."""
        references = self._references(question, passages)  # steps 1 and 2
        if not references:
            return make_prediction("", stop_reason=NOTHING_FOUND)
        response = read_response(self.answering, question, references)  # step 3
        if response is None:
            return make_prediction("", stop_reason=UNPARSEABLE, passages=references)
        # Departure: metrics need a short answer; the reader that all programs share extracts it from the response.
        return make_prediction(
            short_answer(self.reading if self.short else None, question, response),  # step 4
            stop_reason=DONE,
            passages=references,
            citations=cited_passages(response, references),
            response=response,
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the response, and the short answer."""
        return 1 + self.short

    def _references(self, question: str, fixed: list[Passage] | None) -> list[Passage]:
        # Departure: the code reads whole pages and cuts them into paragraphs; here the corpus is in paragraphs already.
        # Titles are compared and shown with them, in the code the texts alone.
        depth = self.k if self.similarity is None else max(self.k, self.candidates)
        found = deduplicate(retrieve_passages(self, question, depth, fixed=fixed))
        if self.similarity is None:
            return found
        best = closest(question, list(map(titled_text, found)), self.similarity, self.k)
        return [found[place] for place in best]
