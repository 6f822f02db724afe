"""CoV-RAG: answer with citations, verify the answer step by step, and search again with a revised question.

He et al., "Retrieving, Rethinking and Revising: The Chain-of-Verification Can Improve Retrieval Augmented Generation",
Findings of EMNLP 2024, sections 2.1, 2.2 (the loop, and the gate in its footnote), 4.3 (ablations), appendices A to F.
https://arxiv.org/abs/2410.05801

1. Retrieve k references for the question and answer from them with citations.
2. Verify: score the references, score the response, judge it, and write a revised question if the judgement is not
   true.
3. If the gate fires (`needs_revision`), retrieve for the revised question and answer the original one from the new
   references; otherwise keep the response.
4. Extract the short answer from the last response.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.gates import Gate, decide, within
from programs.parts.knobs import Choice, Range, set_knobs
from programs.parts.longform import cited_passages, renumbered, short_answer
from programs.parts.passages import deduplicate
from programs.parts.prediction import drop_from_trace, make_prediction, retrieve_passages, settled, try_predict
from programs.parts.questions import find_question
from programs.parts.stop_reasons import CAP, DONE, FINISHED, NOTHING_FOUND, UNPARSEABLE
from programs.parts.verification import TRIGGERS, Verification, needs_revision, read_scores
from signatures.citation_marks import strip_citations
from signatures.common.errors import UserError
from signatures.cov_rag import ReviseQuestion, RewriteQuestion, VerifyAnswer
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage, Retriever

KEPT, REVISED, UNVERIFIED = "kept", "revised", "unverified"  # verdicts, with UNPARSEABLE
REVISE = ("end", "start", "never")


class Answer(NamedTuple):
    """An answer: the query, the references retrieved for it, the response, its verdict, and the reply in the trace."""

    query: str
    references: list[Passage]
    response: str
    verdict: str
    reply: dspy.Prediction | None

    def hop(self) -> Hop:
        """Return the answer as a hop; the marks of its response are positions in the hop's own `passage_ids`."""
        ids = [passage.id for passage in self.references]
        return Hop(question=self.query, answer=self.response, passage_ids=ids, verdict=self.verdict)


class Check(NamedTuple):
    """Verification of an answer (None if unparseable), the gate's decision, the number of clamped scores."""

    verification: Verification | None
    revise: bool
    clamped: int


class CoVRAG(dspy.Module):
    """Answer from k references, verify by a chain of scores, judgement and revised question; if needed, answer again.

    A hop is one answer: `question` is the search query, `answer` the response as written, whose marks are positions in
    `passage_ids`. The marks of the prediction's `response` are positions in its `passages`, the references of all
    rounds. The verdict: "kept" (verified and final), "revised" (verified, and another search followed), "unverified"
    (not verified, or the verification was unparseable), "unparseable" (no response, and no further search).

    `details` of a prediction: `verifications` (fields of `Verification`, for each that was parseable), `decisions` (of
    the gate, for each of these), `revised` (the number of further searches), `verification_failures` (the number of
    unparseable verifications), `clamped_scores` (the number of scores outside [0, 1]).

    Args:
        retrieve: Ranks passages; None if every question has fixed contexts: the answer is then verified, never revised.
        k: References of each answer (paper: 5).
        gate: "revision" revises whenever there is a revised question (the paper's default), "threshold" only if
            scores or judgement trigger it, too (its footnote); see `needs_revision`.
        combine: Whether "any" trigger suffices in threshold mode or "all" are needed.
        reference_below: Correctness of the references below which a revision is triggered (paper: 0.27).
        correctness_below: Correctness of the response below which a revision is triggered (paper: 0.26).
        bias_above: Bias above which a revision is triggered (paper: 0.7).
        truthfulness_below: Truthfulness below which a revision is triggered (paper: 0.92).
        max_revisions: Further rounds of search and answer at most (paper: 1).
        revise: "end" verifies the response and then revises; "start" rewrites the question before the search and
            verifies nothing; "never" answers once and verifies nothing. An ablation (section 4.3), never searched by
            the tuner. The paper's CoV-RAG-S is such a single pass of an LM that was trained to verify; with an
            untrained LM, "never" is plain RAG with citations, the paper's "No-Revise", and must not be reported as
            CoV-RAG-S.
        chain: False asks for the revised question alone, without scores and judgement (section 4.3).
        short: False skips the call that extracts a short `answer` from the response; the response without its marks is
            then the answer, as it is if that reply is unparseable.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "single": {"revise": "never"},
        "thresholds": {"gate": "threshold"},
        "small": {"k": 3},
    }
    GATES: dict[str, Gate] = {
        "rounds": within("max_revisions"),
        "revision": Gate(lambda values, knobs: needs_revision(Verification(**values), knobs), TRIGGERS),
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        gate: Annotated[str, Choice("revision", "threshold")] = "revision",
        combine: Annotated[str, Choice("any", "all")] = "any",
        reference_below: Annotated[float, Range(0, 1)] = 0.27,
        correctness_below: Annotated[float, Range(0, 1)] = 0.26,
        bias_above: Annotated[float, Range(0, 1)] = 0.7,
        truthfulness_below: Annotated[float, Range(0, 1)] = 0.92,
        max_revisions: Annotated[int, Range(1, 3)] = 1,
        revise: str = "end",
        chain: bool = True,
        short: bool = True,
    ):
        super().__init__()
        set_knobs(self, locals())
        if revise not in REVISE:
            raise UserError(f"Knob revise must be one of {', '.join(map(repr, REVISE))}, got {revise!r}.")
        self.retrieve = retrieve
        # Departure: the paper trains one LM to answer and to verify, with the prompts of its appendix A; here an
        # untrained LM gets prompts with wording of their own and typed outputs, which can be compiled. That for the
        # response asks for one to four sentences; the paper's names no length.
        self.answering = dspy.Predict(CiteAnswer)
        if revise == "start":
            self.rewriting = dspy.Predict(RewriteQuestion)
        elif revise == "end" and chain:
            self.verifying = dspy.Predict(VerifyAnswer)
        elif revise == "end":
            self.revising = dspy.Predict(ReviseQuestion)
        if short:
            self.reading = dspy.Predict(ReadAnswer)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the response with its citations; fixed `passages` replace the first references."""
        # Departure: the paper searches the web, where an LM selects text of the pages; here `retrieve` ranks passages.
        # Departure: with revise="start" the rewritten question is searched for, but the question as asked is answered;
        # fixed contexts need no search, so no question is rewritten for them.
        query = self._rewrite(question) if self.revise == "start" and passages is None else question
        references = retrieve_passages(self, query, self.k, fixed=passages)
        answers = [self._answer(question, query, references)]  # step 1
        checks: list[Check] = []
        stop_reason = CAP if self.revise == "end" else DONE
        # Departure: more rounds than the paper's one are possible; as there, the answer of the last is not verified. An
        # empty answer is verified like any other.
        while self.revise == "end" and decide(self, "rounds", done=len(answers) - 1):
            check = self._verify(question, answers)  # step 2
            checks.append(check)
            query, references = self._search_again(check)  # step 3
            if not references:
                stop_reason = NOTHING_FOUND if query else FINISHED if check.verification else UNPARSEABLE
            if references:
                answers[-1] = answers[-1]._replace(verdict=REVISED)
            elif check.verification and answers[-1].response:
                answers[-1] = answers[-1]._replace(verdict=KEPT)
            settled(answers[-1].hop())
            if not references:  # Departure: a further search that finds nothing leaves the answer as it is.
                break
            answers.append(self._answer(question, query, references))
        if len(checks) < len(answers):  # the last answer was not verified
            settled(answers[-1].hop())
        # Departure: the paper's new answer always replaces the earlier one; here an empty or unparseable one does not.
        final = next((answer for answer in reversed(answers) if answer.response), answers[0])
        # Departure: metrics need a short answer; the shared reader extracts it from the response. A response that
        # declines is verified like any other, and is an abstention if it is the last.
        short = short_answer(self.reading if self.short else None, question, final.response)  # step 4
        return _prediction(final, short, answers, checks, stop_reason)

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: every round revised, then the short answer."""
        further = {"end": 2 * self.max_revisions, "start": 1, "never": 0}[self.revise]
        return 1 + further + int(self.short)

    def _answer(self, question: str, query: str, references: Sequence[Passage]) -> Answer:
        """Answer the original question from the references of the query; a response of marks alone counts as none."""
        reply = try_predict(self.answering, question=question, passages=references)
        response = reply.response.strip() if reply and strip_citations(reply.response) else ""
        return Answer(query, list(references), response, UNVERIFIED if response else UNPARSEABLE, reply)

    def _rewrite(self, question: str) -> str:
        reply = try_predict(self.rewriting, question=question)
        rewritten = find_question(reply.revised_question) if reply else ""
        if not rewritten:
            drop_from_trace(reply)  # Departure: without a rewritten question, the question as asked is searched for.
        return rewritten or question

    def _verify(self, question: str, answers: Sequence[Answer]) -> Check:
        """Verify the last answer and decide whether to revise."""
        predictor = self.verifying if self.chain else self.revising
        latest = answers[-1]
        reply = try_predict(predictor, question=question, passages=latest.references, response=latest.response)
        if reply is None:  # Departure: an unparseable verification leaves the answer as it is.
            return Check(None, revise=False, clamped=0)
        scores, clamped = read_scores(reply)  # Departure: scores outside [0, 1] are clamped and counted.
        # Departure: the paper searches for whatever text the verifier returns. Here only a question is a revised
        # question (`find_question`), not "No revision is needed.", and not one that was searched for already.
        revised = find_question(reply.revised_question)
        searched = {same_words(text) for text in (question, *(answer.query for answer in answers))}
        if same_words(revised) in searched:
            revised = ""
        if clamped or (reply.revised_question and not revised):
            drop_from_trace(reply)  # Departure: replies that are overridden leave the trace, so as not to become demos.
        verification = Verification(**scores, judgement=reply.get("judgement"), revised_question=revised)
        return Check(verification, decide(self, "revision", **verification._asdict()), clamped)

    def _search_again(self, check: Check) -> tuple[str, list[Passage]]:
        """Return the revised question and its references; empty if the gate does not fire or there is no retriever."""
        if check.verification is None or not check.revise or self.retrieve is None:
            return "", []
        query = check.verification.revised_question
        return query, self.retrieve(query, self.k)


def _prediction(
    final: Answer, short: str, answers: Sequence[Answer], checks: Sequence[Check], stop_reason: str
) -> dspy.Prediction:
    # Departure: replaced answers leave the trace, so as not to become demos.
    drop_from_trace(*(answer.reply for answer in answers if answer is not final))
    parsed = [(check.verification, check.revise) for check in checks if check.verification is not None]
    passages = deduplicate(passage for answer in answers for passage in answer.references)
    return make_prediction(
        short,
        stop_reason=stop_reason,
        response=renumbered(final.response, final.references, passages),
        hops=[answer.hop() for answer in answers],
        passages=passages,
        citations=cited_passages(final.response, final.references),
        details={
            "verifications": [verification._asdict() for verification, _ in parsed],
            "decisions": [revise for _, revise in parsed],
            "revised": len(answers) - 1,
            "verification_failures": len(checks) - len(parsed),
            "clamped_scores": sum(check.clamped for check in checks),
        },
    )
