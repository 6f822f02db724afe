"""Generate, then read: write a background document from memory, and read the answer from it. Nothing is retrieved.

Yu et al., "Generate rather than Retrieve: Large Language Models are Strong Context Generators", ICLR 2023, sections 3.1
(one document, zero-shot) and 3.2 (several documents). https://arxiv.org/abs/2209.10063

1. Write a document for the question. With `documents="sampled"`, several at once; with "clustered", one for each
   cluster of the demonstrations, from the demonstrations of that cluster alone.
2. Read the answer from all of them.

With `decompose` (the baseline "GenRead w/ decomposition" of Shi et al., ACL 2024, section 5.2), sub-questions are asked
one at a time, steps 1 and 2 answer each, and the LM finishes or concludes from the hops
(`programs/parts/steps/decomposition.py`).

The question-document pairs of section 3.2 are the demonstrations of `writing`: compile the program (`labeled`, or
`bootstrap` with many demonstrations) to have some. They are clustered when a question is asked, which costs no LM call.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.passages import terms_of
from programs.parts.prediction import make_prediction
from programs.parts.steps.decomposition import answer_by_sub_questions
from programs.parts.steps.generated import Reading, read_all, write_documents
from programs.parts.stop_reasons import DONE, UNPARSEABLE
from signatures.closed_book.genread import AskNext, WriteDocument
from signatures.genground import ConcludeAnswer
from signatures.reading import ReadAnswer
from signatures.types import Hop, Passage, Retriever, Similarity

GREEDY, SAMPLED, CLUSTERED = "greedy", "sampled", "clustered"


class GenRead(dspy.Module):
    """Write documents for a question from memory, and read the answer from them.

    Without decomposition there are no hops; with it, a hop is a sub-question and its answer. Its verdict: "read",
    "recalled" (no document could be used; the answer is from memory) or "unparseable" (no answer). Documents are in no
    corpus, so they are neither `passages` nor citations. `details`: `documents` (for the question, or for the
    sub-question of each hop, the list of documents written).

    Args:
        retrieve: Never called; accepted because all programs have the same constructor.
        similarity: Compares demonstrations to cluster them; without one, their words are compared.
        documents: "greedy" writes one document at the LM's temperature (paper, zero-shot), "sampled" writes `size`,
            "clustered" one for each of at most `size` clusters of demonstrations (sampled, while there are none).
        size: Documents, if they are sampled or clustered (paper: 10, read by a trained reader).
        cluster_demos: Demonstrations of a cluster that are shown, the most central ones (paper: 5, drawn at random).
        temperature: Sampling temperature of sampled documents (the public code: 0.95).
        max_hops: Sub-questions at most, with `decompose` (Shi et al. do not say; GenGround's public code: 7).
        decompose: True answers sub-questions instead of the whole question (Shi et al.).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "sampled": {"documents": SAMPLED},
        "clustered": {"documents": CLUSTERED},
        "decomposed": {"decompose": True},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        similarity: Similarity | None = None,
        documents: Annotated[str, Choice(GREEDY, SAMPLED, CLUSTERED)] = GREEDY,
        size: Annotated[int, Range(1, 20)] = 10,
        cluster_demos: Annotated[int, Range(1, 10)] = 5,
        temperature: Annotated[float, Range(0.1, 1.5)] = 0.95,
        max_hops: Annotated[int, Range(1, 8)] = 7,
        decompose: bool = False,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve, self.similarity = retrieve, similarity
        self.writing = dspy.Predict(WriteDocument)
        # The paper's zero-shot reader is an LM that answers from the document, as the reader that all programs share.
        # Departure: several documents are read in one prompt; the paper trains a fusion-in-decoder reader for them.
        self.reading = dspy.Predict(ReadAnswer)
        if decompose:
            self.asking = dspy.Predict(AskNext)
            self.conclusion = dspy.Predict(ConcludeAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer read from documents; `passages` are ignored, because the program is closed-book."""
        written: list[list[str]] = []
        if not self.decompose:
            answer, verdict = self._answer(question, written)
            stop_reason = UNPARSEABLE if verdict == UNPARSEABLE else DONE
            return make_prediction(answer, stop_reason=stop_reason, details={"documents": written})

        def solve(sub_question: str, number: int) -> Hop:
            answer, verdict = self._answer(sub_question, written)
            return Hop(question=sub_question, answer=answer, verdict=verdict)

        end = answer_by_sub_questions(
            question, asking=self.asking, concluding=self.conclusion, solve=solve, most=self.max_hops
        )
        return make_prediction(end.answer, stop_reason=end.stop_reason, hops=end.hops, details={"documents": written})

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: the documents and their reading, for each hop."""
        once = (1 if self.documents == GREEDY else self.size) + 1
        return self.max_hops * (1 + once) + 1 if self.decompose else once

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the documents of a hop are written in parallel."""
        return 3 * self.max_hops + 1 if self.decompose else 2

    def _answer(self, question: str, written: list[list[str]]) -> Reading:
        """Return the answer to one question, and add its documents to `written`."""
        # Departure: the paper cuts documents at 300 tokens; the prompt asks for at most 200 words instead.
        temperature = None if self.documents == GREEDY else self.temperature
        shown = self._clustered() if self.documents == CLUSTERED else []
        documents = write_documents(
            self.writing, question, size=self.size, temperature=temperature, shown=shown
        )  # step 1
        written.append([document.text for document in documents])
        # Departure: where no document can be used, the answer comes from memory; the paper's code repeats the call.
        return read_all(self.reading, question, documents)  # step 2

    def _clustered(self) -> list[list[Any]]:
        """Return the demonstrations of each cluster."""
        demos = list(self.writing.demos)
        texts = [f"{demo.get('question', '')} {demo.get('document', '')}" for demo in demos]
        # Departure: k-medoids by similarity, since that is what a program has of texts; the paper has K-means.
        groups = clusters(texts, self.similarity, self.size)
        return [[demos[place] for place in group[: self.cluster_demos]] for group in groups]


_ITERATIONS = 20


def clusters(texts: Sequence[str], similarity: Similarity | None, size: int) -> list[list[int]]:
    """Return the places of the texts in at most `size` clusters, each with what is most central in it first.

    k-medoids: the first medoid is the text most similar to all, each further one that which is least similar to those
    before; then texts go to their most similar medoid, and the most central text of a cluster becomes its medoid, until
    nothing changes. Ties go to the earlier text. The clusters are in the order of their first texts.

    Args:
        texts: To group.
        similarity: Compares them; without one, the share of terms that two texts have in common does.
        size: Clusters; fewer if there are fewer different texts.
    """
    if not texts:
        return []
    alike = _by_terms(texts) if similarity is None else similarity(list(texts), list(texts))
    near = [[float(value) for value in row] for row in alike]
    medoids = _first_medoids(near, texts, size)
    groups = _assigned(near, medoids)
    for _ in range(_ITERATIONS):
        central = [_central(near, group)[0] for group in groups]
        if central == medoids:
            break
        medoids, groups = central, _assigned(near, central)
    return sorted((_central(near, group) for group in groups), key=min)


def _by_terms(texts: Sequence[str]) -> list[list[float]]:
    terms = [terms_of(text) for text in texts]
    return [[len(one & other) / (len(one | other) or 1) for other in terms] for one in terms]


def _first_medoids(near: Any, texts: Sequence[str], size: int) -> list[int]:
    medoids = [max(range(len(near)), key=lambda place: sum(near[place]))]
    while len(medoids) < min(size, len(near)):
        closeness = [max(near[place][medoid] for medoid in medoids) for place in range(len(near))]
        # The same text again is no cluster of its own, nor is one with the same words. An embedder may compute
        # similarities of one text that differ in their last digits.
        taken = {texts[medoid] for medoid in medoids}
        farthest = min(
            (place for place in range(len(near)) if texts[place] not in taken), key=closeness.__getitem__, default=None
        )
        if farthest is None or near[farthest] in [near[medoid] for medoid in medoids]:
            break
        medoids.append(farthest)
    return medoids


def _assigned(near: Any, medoids: Sequence[int]) -> list[list[int]]:
    """Return the places by medoid; a medoid stays in its own cluster, so that none is empty."""
    groups: dict[int, list[int]] = {medoid: [] for medoid in medoids}
    for place in range(len(near)):
        own = place if place in groups else max(medoids, key=lambda medoid: near[place][medoid])
        groups[own].append(place)
    return list(groups.values())


def _central(near: Any, group: Sequence[int]) -> list[int]:
    """Return a cluster, the text first that is most similar to the others."""
    return sorted(group, key=lambda place: -sum(near[place][other] for other in group))
