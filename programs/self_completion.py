"""Self-reflection and self-completion: abstain if the references are insufficient, and search for what is missing.

"How Credible Is an Answer From Retrieval-Augmented LLMs? Investigation and Improvement With Multi-Hop QA", anonymous
ACL submission, sections 5.1 (reflection), 5.2 (completion) and 6.4 (the cap of 10 references, the single-hop control).
No public copy is known; its questions are those of https://hotpotqa.github.io

1. Retrieve k references for the question.
2. Reflect: answer from all references with citations, or abstain if they are insufficient. If answered, stop.
3. Complete: write a query for what is missing, add the passages it finds to the references, up to the cap; go to 2.
4. When the turns or the cap are exhausted, answer without the option to abstain.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import cited_passages, gives_answer, short_answer
from programs.parts.passages import deduplicate
from programs.parts.predict import drop_from_trace, try_predict
from programs.parts.prediction import make_prediction, retrieve_passages
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.self_completion import AnswerOrAbstain, SearchMissing
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

ANSWERED, ABSTAINED, FORCED, UNPARSEABLE = "answered", "abstained", "forced", "unparseable"
DECISIONS: dict[str | None, str | None] = {ANSWERED: "sufficient", ABSTAINED: "insufficient", UNPARSEABLE: None}


class SelfCompletion(dspy.Module):
    """Answer with citations or abstain; while abstaining, search for what is missing and try again.

    A hop is one retrieval: its question is the query, its answer the response that followed (empty if there was none),
    its passages the references it added. Its verdict: "answered", "abstained", "unparseable" (the reflection was
    unparseable) or "forced" (the last hop, answered without the option to abstain). `details`: `turns` (of completion,
    at most the knob), `first_decision` ("sufficient" or "insufficient" by the first reflection; None if there was none
    or it was unparseable) and `forced` (whether a forced answer was asked for).

    Args:
        retrieve: Ranks passages for a query.
        k: Passages per retrieval (paper: 5).
        cap: References in all (paper: 10); fixed contexts are all kept and count towards it.
        turns: Completion turns, one query each (the paper states no bound).
        reflection: False is the single-hop control: `cap` references at once and one answer, no option to abstain.
        completion: False is reflection only: it abstains if the first references are insufficient.
        forced: False abstains when turns or room are used up; used with completion only.
        short: False skips the call that extracts a short answer from the response; the response without its marks is
            then the answer, as it is if that reply is unparseable.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "reflection": {"completion": False},
        "control": {"reflection": False},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        cap: Annotated[int, Range(1, 20)] = 10,
        turns: Annotated[int, Range(1, 5)] = 3,
        reflection: bool = True,
        completion: bool = True,
        forced: bool = True,
        short: bool = True,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        if reflection:
            self.reflecting = dspy.Predict(AnswerOrAbstain)
        if reflection and completion:
            self.searching = dspy.Predict(SearchMissing)
        if not reflection or (completion and forced):
            self.answering = dspy.Predict(CiteAnswer)
        if short:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return response, citations and short answer; fixed `passages` are the first references."""
        size = min(self.k, self.cap) if self.reflection else self.cap
        references = deduplicate(retrieve_passages(self, question, size, fixed=passages))  # step 1
        hops = [self._respond(question, question, references, references)]  # step 2
        decision = DECISIONS[hops[0].verdict] if self.reflection else None
        queries = [question] if passages is None else []
        while self._may_search(hops, references):
            query, fresh = self._search(question, references, queries)  # step 3
            if not query:
                break
            queries.append(query)
            if not fresh:
                hops.append(Hop(question=query, answer="", verdict=ABSTAINED))
                break
            references = [*references, *fresh]
            hops.append(self._respond(question, query, references, fresh))  # step 2
        # Departure: the paper has no last resort; here the question is answered without the option to abstain.
        forced = self.reflection and self.completion and self.forced and not hops[-1].answer
        if forced:
            hops[-1] = self._force(question, references, hops[-1])  # step 4
        response = hops[-1].answer
        # Departure: metrics need a short answer; the reader that all programs share extracts it from the response.
        short = short_answer(self.reading if self.short else None, question, response)
        return make_prediction(
            short,
            hops=hops,
            passages=references,
            citations=cited_passages(response, references),
            response=response,
            abstained=not response,
            details={"turns": len(hops) - 1, "first_decision": decision, "forced": forced},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: a query and a reflection a turn, a forced answer.

        A turn adds one reference at least, so there are at most `cap` turns; the first retrieval may find nothing.
        """
        if not (self.reflection and self.completion):
            return 1 + self.short
        return 1 + 2 * min(self.turns, self.cap) + self.forced + self.short

    def _may_search(self, hops: Sequence[Hop], references: Sequence[Passage]) -> bool:
        unanswered = self.reflection and self.completion and not hops[-1].answer
        return unanswered and self.retrieve is not None and len(hops) <= self.turns and len(references) < self.cap

    def _respond(self, question: str, query: str, references: list[Passage], fresh: Sequence[Passage]) -> Hop:
        """Reflect on all references, those that the query added included, and return the hop of the retrieval.

        Every retrieval is followed by a reflection, the last one, too: in the paper each addition leads to a new
        response until the LM finds the references sufficient. Without reflection, the answer is asked for directly.
        """
        if self.reflection:
            response, verdict = self._reflect(question, references)
        else:
            response, verdict = self._answer(question, references)
        ids = [passage.id for passage in fresh]
        return Hop(question=query, answer=response, passage_ids=ids, verdict=verdict)

    def _reflect(self, question: str, references: list[Passage]) -> tuple[str, str]:
        """Ask for an answer or an abstention; return the response, empty if there is none, and the verdict."""
        # Departure: the paper recognises an abstention by a fixed sentence; here it is a typed decision, which drops
        # the response. The fixed sentence and an empty response abstain, too, and so does an unparseable reply.
        reply = try_predict(self.reflecting, question=question, passages=references)
        if reply is None:
            return "", UNPARSEABLE
        answered = gives_answer(reply.response)
        if reply.sufficient and answered:
            return reply.response.strip(), ANSWERED
        if reply.sufficient or answered:
            # Departure: a reply that contradicts itself leaves the trace, so as not to become a demo; so do the other
            # replies that are overridden.
            drop_from_trace(reply)
        return "", ABSTAINED

    def _answer(self, question: str, references: list[Passage]) -> tuple[str, str]:
        """Ask for an answer; return the response, empty if the LM declines nevertheless, and the verdict."""
        reply = try_predict(self.answering, question=question, passages=references)
        if reply is None:
            return "", UNPARSEABLE
        if gives_answer(reply.response):
            return reply.response.strip(), ANSWERED
        drop_from_trace(reply)
        return "", ABSTAINED

    def _force(self, question: str, references: list[Passage], last: Hop) -> Hop:
        """Ask for an answer without the option to abstain; return the last hop with it, unchanged if there is none."""
        response, _ = self._answer(question, references)
        return last.model_copy(update={"answer": response, "verdict": FORCED}) if response else last

    def _search(self, question: str, references: list[Passage], queries: Sequence[str]) -> tuple[str, list[Passage]]:
        """Ask for a query for what is missing; return it and the new passages that it retrieves, up to the cap.

        Departure: an unparseable or repeated query, returned as "", and one that finds nothing new end the completion.
        """
        reply = try_predict(self.searching, question=question, passages=references)
        query = reply.query.strip() if reply else ""
        if same_words(query) in {"", *map(same_words, queries)}:
            drop_from_trace(reply)
            return "", []
        known = {passage.id for passage in references}
        retrieved = deduplicate(retrieve_passages(self, query, self.k))
        fresh = [passage for passage in retrieved if passage.id not in known][: self.cap - len(references)]
        if not fresh:
            drop_from_trace(reply)
        return query, fresh
