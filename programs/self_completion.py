"""Self-reflection and self-completion: abstain if the references are insufficient, and search for what is missing.

"How Credible Is an Answer From Retrieval-Augmented LLMs? Investigation and Improvement With Multi-Hop QA", anonymous
ACL submission, sections 5.1 (reflection), 5.2 (completion) and 6.4 (the cap of 10 references, the single-hop control).
No public copy is known; its questions are those of https://hotpotqa.github.io

1. Retrieve k references for the question.
2. Reflect: answer from all references with citations, or abstain if they are insufficient. If answered, stop.
3. Complete: write queries for what is missing, add the new passages they find to the references up to the cap; go to 2.
4. When that ends without an answer (turns or cap used up, no new query, nothing new found), keep the last response
   given, or answer without the option to abstain.

The closed book of section 6.3 is the control with no references: `SelfCompletion(reflection=False)(question, [])`.

Departure: where the paper is silent, 10 is the cap on all references together, k of them for the question itself; new
references follow the old ones; the control's prompt does not offer the refusal; completion has a bound (`turns`).
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import dspy

from programs.parts.gates import Gate, decide, within
from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import cited_passages, gives_answer, renumbered, short_answer
from programs.parts.passages import deduplicate, new_items
from programs.parts.prediction import (
    drop_from_trace,
    make_prediction,
    retrieve_passages,
    retrieve_rankings,
    settled,
    try_predict,
)
from programs.parts.stop_reasons import CAP, DONE, FINISHED, NOTHING_FOUND, REPEATED
from signatures.reading import CiteAnswer, ReadAnswer, RespondFromMemory
from signatures.self_completion import AnswerOrAbstain, SearchMissing
from signatures.types import Hop, Passage, Retriever

ANSWERED, ABSTAINED, KEPT, FORCED, UNPARSEABLE = "answered", "abstained", "kept", "forced", "unparseable"
DECISIONS: dict[str | None, str | None] = {ANSWERED: "sufficient", ABSTAINED: "insufficient", UNPARSEABLE: None}
_SEPARATOR = "; "


class SelfCompletion(dspy.Module):
    """Answer with citations or abstain; while abstaining, search for what is missing and try again.

    A hop is one turn: its question is the question, then the queries of the turn joined by "; ", its answer the
    response that followed (empty if there was none), its draft a response beside an "insufficient", its passages the
    references it added. Its verdict: "answered", "abstained", "unparseable" (the reflection was unparseable), and for
    the last hop "kept" (answered by the last draft) or "forced" (answered without the option to abstain). `details`:
    `turns` (of completion, at most the knob), `first_decision` ("sufficient" or "insufficient" by the first reflection;
    None if there was none or it was unparseable) and `forced` (whether a forced answer was asked for).

    Args:
        retrieve: Ranks passages for a query.
        k: Passages for the question, and new ones per turn, of all its queries together (paper: 5 references where LMs
            are compared, section 6.1; for reflection and completion it names the cap alone).
        cap: References in all (paper: 10, which one full turn reaches); fixed contexts are all kept and count towards
            it. A cap of at most `k` leaves no room: it switches completion off.
        turns: Completion turns, each of one or more queries (the paper states no bound).
        reflection: False is the single-hop control: `cap` references at once and one answer, no option to abstain.
        completion: False is reflection only: it abstains if the first references are insufficient.
        forced: False abstains in place of step 4, a draft or not; used with completion only.
        short: False skips the call that extracts a short answer from the response; the response without its marks is
            then the answer, as it is if that reply is unparseable.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "reflection": {"completion": False},
        "control": {"reflection": False},
        "small": {"k": 3},
    }
    GATES: dict[str, Gate] = {"turns": within("turns")}

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
            self.memory = dspy.Predict(RespondFromMemory)
        if short:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return response, citations and short answer; fixed `passages` are the first references."""
        size = min(self.k, self.cap) if self.reflection else self.cap
        references = deduplicate(retrieve_passages(self, question, size, fixed=passages))  # step 1
        hops = [self._respond(question, question, references, references)]  # step 2
        decision = DECISIONS[hops[0].verdict] if self.reflection else None
        asked = [question] if passages is None else []
        stop_reason = CAP if self.reflection and self.completion else DONE
        while self._may_search(hops, references):
            queries, fresh = self._search(question, references, asked)  # step 3
            if not queries:
                stop_reason = REPEATED
                break
            asked += queries
            settled(hops[-1])  # another one follows: no draft of it will be kept
            if not fresh:
                hops.append(Hop(question=_SEPARATOR.join(queries), answer="", verdict=ABSTAINED))
                stop_reason = NOTHING_FOUND
                break
            references = [*references, *fresh]
            hops.append(self._respond(question, _SEPARATOR.join(queries), references, fresh))  # step 2
        if self.reflection and hops[-1].answer:
            stop_reason = FINISHED
        forced = False
        if self.reflection and self.completion and self.forced and not hops[-1].answer:
            hops[-1], forced = self._answer_nevertheless(question, references, hops)  # step 4
        response = settled(hops[-1]).answer
        # Departure: metrics need a short answer; the reader that all programs share extracts it from the response.
        short = short_answer(self.reading if self.short else None, question, response)
        return make_prediction(
            short,
            stop_reason=stop_reason,
            hops=hops,
            passages=references,
            citations=cited_passages(response, references),
            response=response,
            abstained=not response,
            details={"turns": len(hops) - 1, "first_decision": decision, "forced": forced},
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: queries and a reflection a turn, a forced answer.

        A turn adds one reference at least, so there are at most `cap` turns; the first retrieval may find nothing.
        """
        if not (self.reflection and self.completion):
            return 1 + self.short
        return 1 + 2 * min(self.turns, self.cap) + self.forced + self.short

    def _may_search(self, hops: Sequence[Hop], references: Sequence[Passage]) -> bool:
        unanswered = self.reflection and self.completion and not hops[-1].answer
        room = self.retrieve is not None and len(references) < self.cap
        return unanswered and room and decide(self, "turns", done=len(hops) - 1)

    def _respond(self, question: str, query: str, references: list[Passage], fresh: Sequence[Passage]) -> Hop:
        """Reflect on all references, those that the query added included, and return the hop of the retrieval.

        Every retrieval is followed by a reflection, the last one, too: in the paper each addition leads to a new
        response until the LM finds the references sufficient. Without reflection, the answer is asked for directly.
        """
        if self.reflection:
            response, draft, verdict = self._reflect(question, references)
        else:
            (response, verdict), draft = self._answer(question, references), None
        ids = [passage.id for passage in fresh]
        return Hop(question=query, answer=response, draft=draft, passage_ids=ids, verdict=verdict)

    def _reflect(self, question: str, references: list[Passage]) -> tuple[str, str | None, str]:
        """Ask for an answer or an abstention; return the response, empty if there is none, the draft and the verdict.

        The draft is a response given although the references are judged insufficient.
        """
        # Departure: the paper recognises an abstention by its sentence alone; here it is a typed decision, too, asked
        # for after what is missing. A refusal in any words abstains, and so does an empty or unparseable reply.
        reply = try_predict(self.reflecting, question=question, passages=references)
        if reply is None:
            return "", None, UNPARSEABLE
        response, answered = reply.response.strip(), gives_answer(reply.response)
        if reply.sufficient and answered:
            return response, None, ANSWERED
        if reply.sufficient or answered:
            # Departure: a reply that contradicts itself leaves the trace, so as not to become a demo; so do the other
            # replies that are overridden.
            drop_from_trace(reply)
        return "", response if answered else None, ABSTAINED

    def _answer(self, question: str, references: list[Passage]) -> tuple[str, str]:
        """Ask for an answer; return the response, empty if the LM declines nevertheless, and the verdict.

        Departure: the closed-book prompt of section 6.3 is not printed; without references, given or found, the LM is
        asked to answer from memory, in as many sentences, instead of with what no passage says.
        """
        if references:
            reply = try_predict(self.answering, question=question, passages=references)
        else:
            reply = try_predict(self.memory, question=question)
        if reply is None:
            return "", UNPARSEABLE
        if gives_answer(reply.response):
            return reply.response.strip(), ANSWERED
        drop_from_trace(reply)
        return "", ABSTAINED

    def _answer_nevertheless(self, question: str, references: list[Passage], hops: Sequence[Hop]) -> tuple[Hop, bool]:
        """Return the last hop with an answer, unchanged if there is none, and whether a forced one was asked for.

        Departure: the paper does not say what is returned if the LM finds the references insufficient to the end. Here
        the last draft is; where there is none, the question is answered without the option to abstain.
        """
        for number, hop in reversed(list(enumerate(hops, start=1))):
            if hop.draft:
                seen = sum(len(hop.passage_ids) for hop in hops[:number])  # later references follow these
                kept = renumbered(hop.draft, references[:seen], references)
                return hops[-1].model_copy(update={"answer": kept, "verdict": KEPT}), False
        response, _ = self._answer(question, references)
        answered = hops[-1].model_copy(update={"answer": response, "verdict": FORCED})
        return (answered if response else hops[-1]), True

    def _search(
        self, question: str, references: list[Passage], asked: Sequence[str]
    ) -> tuple[list[str], list[Passage]]:
        """Ask for queries for what is missing; return those that are new and the new passages that they find.

        Departure: the paper gives neither the number of queries in a turn (it writes "queries" and "your query") nor of
        the passages they add. Here it is up to k of all queries together, and no more than the cap leaves: the best new
        passage of each query in turn, then the second best. Each query is searched to depth k plus the number of
        references, so that references found again leave room for new ones. More queries than passages are not asked.

        Departure: an unparseable reply and one without a new query, for which no queries are returned, end the
        completion, and so do queries that find nothing new. A reply of which some queries are used stays whole in the
        trace, with those that were repeated or for which there was no room.
        """
        reply = try_predict(self.searching, question=question, passages=references)
        most = min(self.k, self.cap - len(references))
        queries = new_items(reply.queries if reply else [], asked)[:most]
        rankings = retrieve_rankings(self, queries, self.k + len(references))
        fresh = _merge(rankings, references)[:most]
        if not fresh:
            drop_from_trace(reply)
        return queries, fresh


def _merge(rankings: Iterable[Iterable[Passage]], references: Iterable[Passage]) -> list[Passage]:
    """Return the passages that are no references yet: the best of each ranking in turn that none before has taken."""
    taken, merged = {passage.id for passage in references}, list[Passage]()
    pools = [iter(ranking) for ranking in rankings]
    while pools:
        for pool in list(pools):
            best = next((passage for passage in pool if passage.id not in taken), None)
            if best is None:
                pools.remove(pool)
            else:
                taken.add(best.id)
                merged.append(best)
    return merged
