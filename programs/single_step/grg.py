"""Generator-Retriever-Generator: read documents written from memory together with retrieved passages.

Abdallah and Jatowt, "Generator-Retriever-Generator Approach for Open-Domain Question Answering", arXiv 2023, section 3
(generator, retriever, second generator). https://arxiv.org/abs/2307.11278

1. Write background documents for the question from memory.
2. Retrieve k passages for the question, and drop those whose similarity to it is below the cut-off.
3. Read the answer from passages and documents together.

With `decompose` (the baseline "GRG w/ decomposition" of Shi et al., ACL 2024, section 5.2), sub-questions are asked one
at a time, steps 1 to 3 answer each, and the LM finishes or concludes from the hops
(`programs/parts/steps/decomposition.py`).

Departure: the paper shows five worked examples before the question of step 1; here demonstrations come from compiling.
The public code makes its documents of the single characters of one passage, which is an error; no preset repeats it.
"""

from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.passages import deduplicate, passages_supporting, titled_text
from programs.parts.prediction import make_prediction, retrieve_passages
from programs.parts.steps.decomposition import answer_by_sub_questions
from programs.parts.steps.generated import read_all, write_documents
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.closed_book.genread import AskNext, WriteDocument
from signatures.genground import ConcludeAnswer
from signatures.reading import ReadAnswer
from signatures.types import Hop, Passage, Retriever, Similarity


class Answered(NamedTuple):
    """The answer to one question and what it was read from.

    Args:
        answer: Empty if the reply was unparseable.
        verdict: As of a hop.
        kept: Passages read.
        dropped: Ids of the passages below the cut-off.
        documents: Texts written from memory, read after the passages.
    """

    answer: str
    verdict: str
    kept: list[Passage]
    dropped: list[str]
    documents: list[str]


class GRG(dspy.Module):
    """Write documents for a question from memory, retrieve passages for it, and read the answer from both.

    Without decomposition there are no hops; with it, a hop is a sub-question, its answer and the passages read. Its
    verdict: "read", "recalled" (there was nothing to read; the answer is from memory) or "unparseable" (no answer).
    Documents are in no corpus, so only retrieved passages are `passages`, and the citations are those that support the
    answer (of a hop). `details`: `documents` and `dropped` (for the question, or for the sub-question of each hop, the
    list of documents written, and that of the ids of passages below the cut-off).

    Args:
        retrieve: Ranks passages for the question; None if every question has fixed contexts.
        similarity: Cosine of question and passage, for the cut-off; None cuts off nothing, since scores of retrievers
            have their own scales. It should be that of the dense retriever, as the paper's is.
        k: Passages retrieved per question or sub-question (the public code: 5).
        cutoff: Cosine below which a passage is not read (preset `code`: 0.7, for its own embedder).
        size: Documents written per question or sub-question (the public code: 1).
        temperature: Sampling temperature of several documents; a single one is written at the LM's temperature.
        max_hops: Sub-questions at most, with `decompose` (Shi et al. do not say; GenGround's public code: 7).
        decompose: True answers sub-questions instead of the whole question (Shi et al.).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "code": {"cutoff": 0.7},
        "decomposed": {"decompose": True},
        "small": {"k": 3},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        similarity: Similarity | None = None,
        k: Annotated[int, Range(1, 20)] = 5,
        # Departure: cosines differ between embedders; with a small one as ours hardly any passage reaches 0.7, and
        # nothing that was retrieved would be read.
        cutoff: Annotated[float, Range(0, 1)] = 0.0,
        size: Annotated[int, Range(1, 10)] = 1,
        temperature: Annotated[float, Range(0.1, 1.5)] = 0.95,
        max_hops: Annotated[int, Range(1, 8)] = 7,
        decompose: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.similarity = similarity
        # Departure: the public code cuts documents at 300 tokens; the prompt asks for at most 200 words instead.
        self.writing = dspy.Predict(WriteDocument)
        # Departure: the paper's second LM is trained to read; here it is the reader that all programs share.
        self.reading = dspy.Predict(ReadAnswer)
        if decompose:
            self.asking = dspy.Predict(AskNext)
            self.conclusion = dspy.Predict(ConcludeAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        if not self.decompose:
            answered = self._answer(question, passages)
            stop_reason = UNPARSEABLE if answered.verdict == UNPARSEABLE else DONE
            return _prediction(question, answered.answer, stop_reason, [], [answered])

        path: list[Answered] = []

        def solve(sub_question: str, number: int) -> Hop:
            fixed = passages if number == 1 or self.retrieve is None else None
            path.append(self._answer(sub_question, fixed))
            answer, verdict, kept, *_ = path[-1]
            ids = [passage.id for passage in kept]
            return Hop(question=sub_question, answer=answer, passage_ids=ids, verdict=verdict)

        end = answer_by_sub_questions(
            question, asking=self.asking, concluding=self.conclusion, solve=solve, most=self.max_hops
        )
        return _prediction(question, end.answer, end.stop_reason, end.hops, path)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the documents and the reading, for each hop."""
        once = self.size + 1
        return self.max_hops * (1 + once) + 1 if self.decompose else once

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the documents of a hop are written in parallel."""
        return 3 * self.max_hops + 1 if self.decompose else 2

    def _answer(self, question: str, fixed: list[Passage] | None) -> Answered:
        """Return the answer to one question."""
        temperature = self.temperature if self.size > 1 else None
        documents = write_documents(self.writing, question, size=self.size, temperature=temperature)  # step 1
        found = deduplicate(retrieve_passages(self, question, self.k, fixed=fixed))  # step 2
        kept = self._above_cutoff(question, found)
        # Departure: the paper states no order; here what was retrieved comes first. With nothing to read, the answer
        # comes from memory.
        answer, verdict = read_all(self.reading, question, [*kept, *documents])  # step 3
        held = {passage.id for passage in kept}
        dropped = [passage.id for passage in found if passage.id not in held]
        return Answered(answer, verdict, kept, dropped, [document.text for document in documents])

    def _above_cutoff(self, question: str, passages: list[Passage]) -> list[Passage]:
        """Return the passages whose cosine with the question is not below the cut-off; all without a similarity."""
        if self.similarity is None or not passages:
            return passages
        (cosines,) = self.similarity([question], [titled_text(passage) for passage in passages])
        return [passage for passage, cosine in zip(passages, cosines, strict=True) if float(cosine) >= self.cutoff]


def _prediction(question: str, answer: str, stop_reason: str, hops: list[Hop], path: list[Answered]) -> dspy.Prediction:
    asked = [hop.question for hop in hops] or [question]
    return make_prediction(
        answer,
        stop_reason=stop_reason,
        hops=hops,
        passages=[passage for each in path for passage in each.kept],
        citations=[
            id for q, each in zip(asked, path, strict=True) for id in passages_supporting(q, each.answer, each.kept)
        ],
        details={"documents": [each.documents for each in path], "dropped": [each.dropped for each in path]},
    )
