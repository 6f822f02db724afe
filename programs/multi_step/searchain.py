"""SearChain: the LM plans a whole chain of queries, and a search corrects or completes one of its answers at a time.

Xu et al., "Search-in-the-Chain: Interactively Enhancing Large Language Models with Search for Knowledge-intensive
Tasks", WWW 2024, section 3 (chain of query, verification and completion, tree of reasoning, tracing), and its public
code. https://arxiv.org/abs/2304.14732

1. Plan: from the question and the dialogue so far, write a whole chain: each step a query with its answer, or with none
   where the LM does not know it, and at the end the final content, which cites steps by number.
2. For each query in order that was not handled before, retrieve k passages and read an answer from them.
3. Completion: a step without an answer gets what was read. Verification: a step whose answer is another one than what
   was read gets that, if the reader is confident of it.
4. The first such step alone is fed back, with its passage; go to 1: the new chain is another branch of the tree.
   Without feedback, or after `max_rounds` chains, go to 5.
5. The final content of the last chain is the response: its marks cite the passages of the steps.

Departure: where the last chain has no final content, or a later one could not be read, the answer is that of the last
step of the last chain that could; the public code joins the texts of all chains, of which the last final content
counts.
Departure: of a chain, at most `max_hops` new queries are searched for, and the steps behind them stay unverified unless
another chain follows. The dialogue is limited in words, and what is oldest is left out first.
Departure: the public code sets no temperature, so that chains are sampled at that of its provider (1); here it is a
setting of the LM (`--temperature`), 0 unless it is given.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.agents.transcript import found_texts, transcript_lines
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import answer_in, cited_passages, read_answer, short_answer
from programs.parts.passages import deduplicate, passages_stating, passages_supporting, passes
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.probability import YesProbability, calls_per_probability, probability
from programs.parts.reasoning.chain import Branch, ChainStep, agree, branch_of, may_ask_the_same
from programs.parts.stop_reasons import CAP, DONE, FINISHED, NOTHING_FOUND, REPEATED, UNPARSEABLE
from signatures.citation_marks import renumber_citations
from signatures.multi_step.searchain import PlanChain, TrustAnswer
from signatures.reading import ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever, Similarity

CONFIRMED, CORRECTED, COMPLETED, KEPT, UNCHECKED = "confirmed", "corrected", "completed", "kept", "unchecked"
DIRECT, EXTRACT, CONTENT = "direct", "extract", "content"


class Check(NamedTuple):
    """A query that was handled.

    Args:
        hop: The query with its answer, and what became of it.
        found: The passages for it.
        reference: Which of them its step cites; None if nothing was found.
        confidence: P(yes) that the passages give the answer that was read; None if not asked or unparseable.
        results: The feedback, as lines of the dialogue; empty if there is none.
    """

    hop: Hop
    found: Sequence[Passage] = ()
    reference: Passage | None = None
    confidence: YesProbability | None = None
    results: tuple[str, ...] = ()


class SearChain(dspy.Module):
    """Plan a chain of queries with answers from memory, and plan again whenever passages correct or complete a step.

    A hop is a query that was searched for: its draft is the LM's answer (None if it had none), its answer the one that
    holds. Its verdict: "confirmed" (the passages say the same), "corrected" (they confidently say something else),
    "completed" (the LM had no answer), "kept" (they say nothing, or something else without confidence), "unchecked"
    (not read: nothing was found, or no chain follows that could use it). The prediction's `response` is the final
    content; a mark whose step has no passage is left out of range. `stop_reason`: "finished" (no feedback), "repeated"
    or "nothing found" (none, but a step is still without an answer), "cap" (of chains, or of queries of one while a
    step without an answer was not searched for), "done" (nothing was to be fed back).

    `details`: `chains` (of each the steps as texts, and the final content last, if any), `confidences` (P(yes) that the
    passages give the answer that was read, per hop; None if not asked or unparseable), `said` (the answer by the reader
    "content") and `probability_mode`.

    Args:
        retrieve: Ranks passages for a query; `passages` given are what the first query finds.
        similarity: Finds queries that were handled before in other words (paper: a cross-encoder). Without one, those
            of the same words are.
        k: Passages per query (paper: 1).
        max_rounds: Chains (paper: 5).
        max_hops: New queries of a chain that are searched for (the paper states no bound).
        threshold: P(yes) above which the reader is confident (public code: a logit of 1.5 of its reader).
        same_above: Similarity above which a query was handled before (paper: 0.5 of its cross-encoder).
        transcript_words: Longest dialogue that a call is shown (paper: what the LM's context holds).
        verification: False gives no feedback on steps with an answer.
        completion: False gives no feedback on steps without an answer; with neither, there is one chain, from memory.
        reader: Who gives the short answer. "content" is the paper's, whose metric looks for the answer in the final
            content: what that states, without a call; so it is where another reader gives none. "direct" (preset
            `shared_reader`) is the shared reader with all passages found: that of other strategies here, so that
            comparisons measure the passages. "extract" lets it read the final content instead.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "shared_reader": {"reader": DIRECT},
        "small": {"max_rounds": 3, "max_hops": 4, "transcript_words": 500, "reader": DIRECT},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        similarity: Similarity | None = None,
        k: Annotated[int, Range(1, 10)] = 1,
        max_rounds: Annotated[int, Range(1, 10)] = 5,
        max_hops: Annotated[int, Range(1, 10)] = 5,
        threshold: Annotated[float, Range(0, 1)] = 0.7,
        same_above: Annotated[float, Range(0, 1)] = 0.97,
        transcript_words: Annotated[int, Range(100, 20_000, log=True)] = 3000,
        verification: bool = True,
        completion: bool = True,
        reader: Annotated[str, Choice(DIRECT, EXTRACT, CONTENT)] = CONTENT,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve, self.similarity = retrieve, similarity
        self.planning = dspy.Predict(PlanChain)
        if verification or completion:
            self.checking = dspy.Predict(ReadAnswer)
        if verification:
            # Departure: the paper's reader is trained (DPR) and scores its answers; here the LM reads, and P(yes) that
            # the passages give the answer is its confidence.
            self.trusting = dspy.Predict(TrustAnswer)
        if reader != CONTENT:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return content and short answer; fixed `passages` replace the first retrieval (all without a retriever)."""
        branches: list[Branch] = []
        checks: list[Check] = []
        rounds, stop_reason = self._rounds(), CAP
        for number in range(1, rounds + 1):
            shown = {"question": question, "transcript": transcript_lines(branches, self.transcript_words)}
            reply = try_predict(self.planning, **shown)  # step 1
            if reply is None:
                stop_reason = UNPARSEABLE
                break
            branch = branch_of(question, reply)  # Departure: without steps, the question is the only query.
            new = self._check_chain(branch, checks, passages, reads=number < rounds)  # steps 2 to 4
            checks += new
            results = new[-1].results if new else ()
            branches.append(branch._replace(results=results))
            if new and new[-1].hop.verdict == CORRECTED:
                drop_from_trace(reply)  # a chain that was found to be wrong must not become a demo
            if not results:
                stop_reason = self._why_it_ended(branch, checks, full=number == rounds and bool(new))
                break
        if not branches:  # Departure: without a chain, the question is searched for, to have something to read.
            branches.append(Branch([ChainStep(question)]))
            checks += self._check_chain(branches[-1], checks, passages, reads=False)
        read = deduplicate(passage for check in checks for passage in check.found)
        response = self._cite(branches[-1], checks, read)  # step 5
        answer = self._answer(question, branches[-1], read)
        return make_prediction(
            answer,
            stop_reason=stop_reason,
            hops=[check.hop for check in checks],
            passages=read,
            citations=cited_passages(response, read) or passages_supporting(question, answer, read),
            response=response or answer,
            details={
                "chains": [[*map(str, each.steps), *([each.content] if each.content else [])] for each in branches],
                "confidences": [check.confidence.value if check.confidence else None for check in checks],
                "said": branches[-1].stated(),
                "probability_mode": next((each.confidence.mode for each in checks if each.confidence), None),
            },
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: chains, checks of all but the last, the reader's."""
        return self._most(calls_per_probability())

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: the samples of a P(yes) are asked in parallel."""
        return self._most(1)

    def _most(self, probability: int) -> int:
        """Return the most LM calls if a P(yes) takes `probability` of them."""
        checks = self.max_hops * (1 + probability) if self.verification else 1
        return self._rounds() + (self._rounds() - 1) * checks + (self.reader != CONTENT)

    def _rounds(self) -> int:
        return self.max_rounds if self.verification or self.completion else 1

    def _check_chain(
        self, branch: Branch, before: Sequence[Check], fixed: list[Passage] | None, *, reads: bool
    ) -> list[Check]:
        """Return the checks of the queries of a chain that were not handled before, up to the first with feedback."""
        new: list[Check] = []
        for step in branch.steps:
            handled = [*before, *new]
            if self._is_handled(step, handled):
                continue
            given = fixed if not handled or self.retrieve is None else None
            found = deduplicate(retrieve_passages(self, step.query, self.k, fixed=given))  # step 2
            # Departure: after the last chain nothing is read, because no chain would follow the feedback; its queries
            # are searched for alone, for what the final content cites.
            check = self._check(step, found) if reads else _unchecked(step, found)
            settled(check.hop)
            new.append(check)
            if check.results or len(new) == self.max_hops:
                break
        return new

    def _is_handled(self, step: ChainStep, handled: Sequence[Check]) -> bool:
        """Return whether a step needs no search.

        Departure: in the public code a query that the LM cannot answer is never handled. Here it is if its words are
        those of one that was fed back, or that it could not answer before either: the search would find the same.
        """
        if step.answer:
            return self._same(step, handled) is not None
        again = (check for check in handled if same_words(check.hop.question) == same_words(step.query))
        return any(check.results or check.hop.draft is None for check in again)

    def _same(self, step: ChainStep, handled: Sequence[Check]) -> Check | None:
        """Return the check of the query that a step asks, in the same words or in similar ones; None if there is none.

        Departure: a cosine is no cross-encoder for duplicate questions. With the embedder of the default "When was X
        born?" and "Where was X born?" have up to 0.98, and two Chinese queries about different ports 1.0; so the bound
        is higher, and besides the words must be such that both may ask the same.
        """
        alike = [check for check in handled if same_words(check.hop.question) == same_words(step.query)]
        if alike or self.similarity is None or not handled:
            return alike[-1] if alike else None
        scores = self.similarity([step.query], [check.hop.question for check in handled])[0]
        best, score = max(zip(handled, map(float, scores), strict=True), key=lambda pair: pair[1])
        return best if score > self.same_above and may_ask_the_same(step.query, best.hop.question) else None

    def _check(self, step: ChainStep, found: list[Passage]) -> Check:
        """Read the answer to a query from its passages, and compare it with the LM's (step 3)."""
        if not found or not (self.verification if step.answer else self.completion):
            return _unchecked(step, found)
        reply = try_predict(self.checking, passages=found, question=step.query)
        told = answer_in(reply)
        stating = set(passages_stating(told, found))
        reference = next((passage for passage in found if passage.id in stating), found[0])
        check = Check(_hop(step, found, step.answer, KEPT), found, reference)
        # With several passages, the one that states the answer is fed back and cited.
        results = (f"{step.query} -> {told or 'unknown'}", *found_texts([reference]))
        if not told:
            drop_from_trace(reply)
        if not step.answer:
            # Departure: the paper completes with whatever its reader extracts; here "unknown" is fed back, too.
            return check._replace(hop=_hop(step, found, told, COMPLETED), results=results)
        if not told:  # Departure: the paper's reader always extracts something; without an answer nothing disagrees.
            return check
        if agree(step.answer, told):
            return check._replace(hop=_hop(step, found, step.answer, CONFIRMED))
        confidence = probability(self.trusting, passages=found, question=step.query, answer=told)
        if not passes(confidence.value if confidence else None, self.threshold):
            drop_from_trace(reply)
            return check._replace(confidence=confidence)
        return check._replace(hop=_hop(step, found, told, CORRECTED), confidence=confidence, results=results)

    def _why_it_ended(self, branch: Branch, checks: Sequence[Check], *, full: bool) -> str:
        """Return why no feedback follows a chain; `full` if it was the last one allowed, and had new queries."""
        if not (self.verification or self.completion):
            return DONE
        if full:
            return CAP
        found = {same_words(check.hop.question): bool(check.found) for check in checks}
        missing = [found.get(same_words(step.query)) for step in branch.steps if not step.answer]
        if not (self.completion and missing):
            return FINISHED
        return CAP if None in missing else REPEATED if any(missing) else NOTHING_FOUND

    def _cite(self, branch: Branch, checks: Sequence[Check], read: Sequence[Passage]) -> str:
        """Return the final content with marks that are positions in the passages read."""
        positions = {passage.id: place for place, passage in enumerate(read, start=1)}

        def position_of(mark: int) -> int:
            same = self._same(branch.steps[mark - 1], checks) if 1 <= mark <= len(branch.steps) else None
            if same and same.reference:
                return positions[same.reference.id]
            return mark + len(read) if 1 <= mark <= len(read) else mark  # what cites nothing must not be in range

        return renumber_citations(branch.content, position_of)

    def _answer(self, question: str, branch: Branch, read: list[Passage]) -> str:
        """Return the short answer by the reader that is the knob."""
        said, answer = branch.stated(), ""
        if self.reader == EXTRACT:
            answer = short_answer(self.reading, question, branch.content)
        elif self.reader == DIRECT and read:
            answer = read_answer(self.reading, question, read)
        if answer and said and not agree(said, answer):
            drop_from_trace(branch.reply)  # a chain that ends with another answer must not become a demo
        return answer or said


def _unchecked(step: ChainStep, found: list[Passage]) -> Check:
    return Check(_hop(step, found, step.answer, UNCHECKED), found, found[0] if found else None)


def _hop(step: ChainStep, found: Sequence[Passage], answer: str, verdict: str) -> Hop:
    ids = [passage.id for passage in found]
    return Hop(question=step.query, answer=answer, draft=step.answer or None, passage_ids=ids, verdict=verdict)
