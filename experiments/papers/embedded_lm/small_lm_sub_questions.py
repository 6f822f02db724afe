"""Sub-questions, gold or the LM's own, and what they are worth to a small LM.

The programs are in no catalog: nobody published them by themselves. With gold sub-questions they are upper bounds,
since these name the entities on the way.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import dspy

from experiments.papers.embedded_lm.small_lm_runs import Variant
from programs.parts.fanout import fanout
from programs.parts.knobs import Range, set_knobs
from programs.parts.passages import deduplicate, passages_stating
from programs.parts.predict import try_predict
from programs.parts.prediction import make_prediction, retrieve_passages
from signatures.genground import ConcludeAnswer, DeduceAnswer
from signatures.reading import ReadAnswer
from signatures.text import split_sentences
from signatures.text_words import contains_words, count_words, same_words
from signatures.types import Hop, Passage, Retriever

if TYPE_CHECKING:
    from corpora.questions import Question

FIRST = "gold sub-questions first, k=3"
ONE_BY_ONE = "gold sub-questions one by one, k=3"
_FEWEST_WORDS = 3  # of a usable sub-question, as in GenGround


def gold_sub_questions(questions: "Sequence[Question]") -> dict[str, list[str]]:
    """Return question -> its gold sub-questions, of the questions that have any."""
    return {item.question: [hop.question for hop in item.sub_questions] for item in questions if item.sub_questions}


def gold_variants(questions: "Sequence[Question]", *, k: int) -> dict[str, Variant]:
    """Return the runs with gold sub-questions by their labels; empty if no question has any.

    Args:
        questions: Of the set.
        k: Passages read at a time.
    """
    given = gold_sub_questions(questions)
    if not given:
        return {}
    return {
        FIRST: Variant("gold-sub-questions", lambda retrieve: SubQuestionsFirst(retrieve, given, k=k)),
        ONE_BY_ONE: Variant("gold-one-by-one", lambda retrieve: SubQuestionsOneByOne(retrieve, given, k=k)),
    }


class SubQuestionsFirst(dspy.Module):
    """Put sub-questions before the question in the reader's prompt; the passages are those of the question alone.

    Args:
        retrieve: Ranks passages for the question.
        given: Question -> its sub-questions, none for one that is missing; None lets the LM write them: GenGround's
            deductions, each answered from memory, without grounding.
        k: Passages read.
        max_steps: Sub-questions that the LM writes at most.
    """

    def __init__(
        self,
        retrieve: Retriever | None = None,
        given: Mapping[str, Sequence[str]] | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 3,
        max_steps: Annotated[int, Range(1, 8)] = 3,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.given = None if given is None else dict(given)
        if given is None:
            self.deduction = dspy.Predict(DeduceAnswer)
        self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer; the hops are the sub-questions."""
        if self.given is None:
            hops = self._deduce(question)
        else:
            hops = [Hop(question=item, answer="") for item in self.given.get(question, ())]
        found = retrieve_passages(self, question, self.k, fixed=passages)
        asked = " ".join([*(hop.question for hop in hops), question])
        step = try_predict(self.reading, question=asked, passages=found)
        answer = step.answer if step else ""
        return make_prediction(answer, hops=hops, passages=found, citations=passages_stating(answer, found))

    def _deduce(self, question: str) -> list[Hop]:
        """Return the sub-questions until the LM is finished, repeats itself, or writes none."""
        hops: list[Hop] = []
        seen = {same_words(question)}
        while len(hops) < self.max_steps:
            reply = try_predict(self.deduction, question=question, hops=hops)
            if reply is None or reply.finished or count_words(reply.sub_question) < _FEWEST_WORDS:
                break
            if same_words(reply.sub_question) in seen:
                break
            seen.add(same_words(reply.sub_question))
            hops.append(Hop(question=reply.sub_question, answer=reply.answer))
        return hops

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 1 + (int(self.max_steps) if self.given is None else 0)


class SubQuestionsOneByOne(dspy.Module):
    """Answer each given sub-question from passages retrieved for it, and conclude from the answers and their sentences.

    Args:
        retrieve: Ranks passages for a sub-question, or for a question that has none.
        given: Question -> its sub-questions; one that has none is read as `rag` does.
        k: Passages read for each.
    """

    def __init__(
        self,
        retrieve: Retriever | None = None,
        given: Mapping[str, Sequence[str]] | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 3,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.given = dict(given or {})
        self.reading = dspy.Predict(ReadAnswer)
        self.conclusion = dspy.Predict(ConcludeAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the conclusion; the hops are the sub-questions with their answers."""
        asked = self.given.get(question) or [question]
        steps = fanout([partial(self._read, item, passages) for item in asked])
        hops = [hop for hop, _ in steps]
        found = deduplicate([passage for _, read in steps for passage in read])
        answer = hops[0].answer if asked == [question] else self._conclude(question, hops)
        return make_prediction(answer, hops=hops, passages=found, citations=passages_stating(answer, found))

    def _read(self, question: str, fixed: list[Passage] | None) -> tuple[Hop, list[Passage]]:
        found = retrieve_passages(self, question, self.k, fixed=fixed)
        reply = try_predict(self.reading, question=question, passages=found)
        answer = reply.answer if reply else ""
        return Hop(question=question, answer=answer, evidence=_sentence_stating(answer, found)), found

    def _conclude(self, question: str, hops: list[Hop]) -> str:
        reply = try_predict(self.conclusion, question=question, hops=hops)
        return reply.answer if reply else hops[-1].answer

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 1 + max((len(asked) for asked in self.given.values()), default=0)


def _sentence_stating(answer: str, passages: Sequence[Passage]) -> str | None:
    """Return the first sentence that contains an answer: a student concludes from hops with evidence."""
    stating = set(passages_stating(answer, passages))
    texts = [passage.text for passage in passages if passage.id in stating]
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    return next((sentence for sentence in sentences if contains_words(sentence, answer)), None)
