"""Self-reflection and self-completion: say when the references do not suffice, and ask for what is missing.

"How Credible Is an Answer From Retrieval-Augmented LLMs? Investigation and Improvement With Multi-Hop QA", anonymous
ACL submission, sections 5.1 (reflection), 5.2 (completion) and 6.4 (the cap of 10 references, the single-hop control).
No public copy is known; its questions are those of https://hotpotqa.github.io

Every retrieval is followed by a reflection on all references so far, the last one, too: the paper lets each addition
lead to a new response until the LM holds the references for enough.

Departure: abstaining is a typed decision beside the response, where the paper looks for a fixed sentence. The decision
counts: a response beside "insufficient" is dropped. The fixed sentence abstains as well, and so does a response of no
words.
Departure: an unreadable reflection counts as an abstention.
Departure: the paper has no last resort; when turns or room are used up, the question is answered without the choice to
abstain. `forced=False` abstains there.
Departure: an unreadable or repeated query, and one that finds nothing new, end the completion early.
Departure: the short answer that metrics need is read out of the response by the reader that all programs share.
Departure: replies that these rules override are taken out of the trace, so that no optimizer makes demos of them.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import cited_passages, says_something, short_answer
from programs.parts.passages import without_repeats
from programs.parts.predict import attempt, retract
from programs.parts.prediction import outcome, retrieve_or_given
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.self_completion import AnswerOrAbstain, SearchMissing
from signatures.text import normalize_answer
from signatures.types import Hop, Passage, Retriever

ANSWERED, ABSTAINED, FORCED, UNREAD = "answered", "abstained", "forced", "unread"
DECISIONS: dict[str | None, str | None] = {ANSWERED: "sufficient", ABSTAINED: "insufficient", UNREAD: None}


class SelfCompletion(dspy.Module):
    """Answer with citations or abstain; while abstaining, search for what is missing and try again.

    A hop of the result is one retrieval: its question is the query, its answer the response that followed (empty where
    there was none), its passages the references it added. Its verdict: "answered", "abstained", "unread" (the
    reflection could not be read) or "forced" (the last hop of a question answered without the choice to abstain).
    The details: `turns` (completion turns, at most the knob), `first_decision` ("sufficient" or "insufficient" by the
    first reflection; None where there was none or it was unreadable) and `forced` (whether a forced answer was asked
    for).

    Args:
        retrieve: Ranks passages for a query.
        k: Passages asked for per retrieval (paper: 5).
        cap: References in all (paper: 10); given passages are all kept and leave less room, or none.
        turns: Completion turns, one query each (the paper states no bound).
        reflection: False is the single-hop control: `cap` references at once and one answer, no choice to abstain.
        completion: False is reflection only: it abstains where the first references do not suffice.
        forced: False abstains when turns or room are used up; used with completion only.
        short: False leaves out the call that reads a short answer out of the response; the response without its marks
            is then the answer, as it is when that reply cannot be read.
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
        switches = {"reflection": reflection, "completion": completion, "forced": forced, "short": short}
        set_knobs(self, {"k": k, "cap": cap, "turns": turns, **switches})
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
        """Return response, citations and short answer; given `passages` are the first references."""
        first = min(self.k, self.cap) if self.reflection else self.cap
        references = without_repeats(retrieve_or_given(self, question, first, passages))
        hops = [self._hop(question, question, references, references)]
        decision = DECISIONS[hops[0].verdict] if self.reflection else None
        asked = [question] if passages is None else []
        while self._may_search(hops, references):
            query = self._query(question, references, asked)
            if not query:
                break
            asked.append(query)
            fresh = self._missing(query, references)
            if not fresh:
                hops.append(Hop(question=query, answer="", verdict=ABSTAINED))
                break
            references = [*references, *fresh]
            hops.append(self._hop(question, query, references, fresh))
        forced = self.reflection and self.completion and self.forced and not hops[-1].answer
        if forced:
            hops[-1] = self._forced(question, references, hops[-1])
        details = {"turns": len(hops) - 1, "first_decision": decision, "forced": forced}
        return self._outcome(question, hops, references, details)

    def max_calls(self) -> int:
        """Return the most LM calls one question can take: a query and a reflection in each turn, then a forced answer.

        A turn adds one reference at least, so there are no more turns than the cap has places; the first retrieval may
        have found nothing.
        """
        if not (self.reflection and self.completion):
            return 1 + self.short
        return 1 + 2 * min(self.turns, self.cap) + self.forced + self.short

    def _may_search(self, hops: Sequence[Hop], references: Sequence[Passage]) -> bool:
        wanted = self.reflection and self.completion and not hops[-1].answer
        return wanted and self.retrieve is not None and len(hops) <= self.turns and len(references) < self.cap

    def _hop(self, question: str, query: str, references: list[Passage], fresh: Sequence[Passage]) -> Hop:
        """Return the hop of one retrieval: what the LM makes of all references with the fresh ones among them."""
        response, verdict = (self._reflect if self.reflection else self._answer)(question, references)
        ids = [passage.id for passage in fresh]
        return Hop(question=query, answer=response, passage_ids=ids, verdict=verdict)

    def _reflect(self, question: str, references: list[Passage]) -> tuple[str, str]:
        """Return a response and "answered", or nothing and why."""
        step = attempt(self.reflecting, question=question, passages=references)
        if step is None:
            return "", UNREAD
        told = says_something(step.response)
        if step.sufficient and told:
            return step.response.strip(), ANSWERED
        if step.sufficient or told:
            retract(self.reflecting)  # decision and response contradict each other
        return "", ABSTAINED

    def _answer(self, question: str, references: list[Passage]) -> tuple[str, str]:
        """Return a response and "answered"; an LM that declines all the same is not overruled."""
        step = attempt(self.answering, question=question, passages=references)
        if step is None:
            return "", UNREAD
        if says_something(step.response):
            return step.response.strip(), ANSWERED
        retract(self.answering)
        return "", ABSTAINED

    def _forced(self, question: str, references: list[Passage], last: Hop) -> Hop:
        """Return the last hop with a forced answer; unchanged where even that gives none."""
        response, _ = self._answer(question, references)
        return last.model_copy(update={"answer": response, "verdict": FORCED}) if response else last

    def _query(self, question: str, references: list[Passage], asked: Sequence[str]) -> str:
        """Return the query for what is missing; empty when there is none that was not asked before."""
        step = attempt(self.searching, question=question, passages=references)
        query = step.query.strip() if step else ""
        wanted = normalize_answer(query)
        if wanted and wanted not in map(normalize_answer, asked):
            return query
        if step is not None:
            retract(self.searching)
        return ""

    def _missing(self, query: str, references: Sequence[Passage]) -> list[Passage]:
        """Return what the query finds that is not among the references, as far as there is room."""
        known = {passage.id for passage in references}
        found = without_repeats(retrieve_or_given(self, query, self.k, None))
        fresh = [passage for passage in found if passage.id not in known][: self.cap - len(references)]
        if not fresh:
            retract(self.searching)
        return fresh

    def _outcome(
        self, question: str, hops: list[Hop], references: list[Passage], details: dict[str, Any]
    ) -> dspy.Prediction:
        response = hops[-1].answer
        return outcome(
            short_answer(self.reading if self.short else None, question, response),
            hops=hops,
            passages=references,
            citations=cited_passages(response, references),
            response=response,
            abstained=not response,
            details=details,
        )
