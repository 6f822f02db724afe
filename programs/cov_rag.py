"""CoV-RAG: answer with citations, verify the answer step by step, and search again with a better question.

He et al., "Retrieving, Rethinking and Revising: The Chain-of-Verification Can Improve Retrieval Augmented Generation",
Findings of EMNLP 2024, sections 2.1, 2.2 (the loop, and the gate in its footnote), 4.3 (ablations), appendices D to F.
https://arxiv.org/abs/2410.05801

Departure: the paper trains one LM for answering and verifying; here both are prompts, to be compiled.
Departure: the footnote gives thresholds without directions or a combination: scores that should be high are a sign when
below, bias when above, and `combine` says whether one sign suffices or all are needed. "unclear" is no sign.
Departure: a sign that is not known (without the chain, all) is left out; where none is known, the gate is as in the
mode "revision".
Departure: a revised question that repeats one already searched for is no revision, nor is "none" or the like.
Departure: an unreadable verification, a further search that finds nothing and an unreadable later answer leave the
earlier answer standing; where the first answer is unreadable or empty there is nothing to verify.
Departure: scores outside [0, 1] are clamped and counted; replies that this or the repetition overrides leave the trace,
and so do answers that another one replaced, so that no optimizer makes demos of them.
Departure: the short answer that metrics need is read out of the response by the reader that all programs share; a
response that declines is verified like any other, and is an abstention when it is the last.
Departure: more rounds than the paper's one are allowed; the answer of the last round is not verified, as there.
Departure: `revise="start"` searches with one rewritten question and answers the question as asked; given passages need
no search, so nothing is rewritten for them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Choice, Range, knob_values, set_knobs
from programs.parts.longform import cited_passages, short_answer
from programs.parts.passages import without_repeats
from programs.parts.predict import attempt, retract, withdraw
from programs.parts.prediction import outcome, retrieve_or_given
from signatures.common.errors import UserError
from signatures.cov_rag import ReviseQuestion, RewriteQuestion, VerifyAnswer
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.text import normalize_answer, renumber_citations, strip_citations
from signatures.types import Hop, Passage, Retriever

KEPT, REVISED, UNVERIFIED, UNREADABLE = "kept", "revised", "unverified", "unreadable"
REVISE = ("end", "start", "never")
SCORES = ("reference_correctness", "correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")

_NO_QUESTION = {"", "none", "na", "null", "empty", "empty string", "unchanged", "not needed", "not applicable"}
_NO_QUESTION |= {"no revision", "no revision needed"}  # how LMs spell an empty field, normalised


class Verification(NamedTuple):
    """What a verification says of an answer; without the chain only the revised question is known.

    Args:
        reference_correctness: How far the references bear on the question. This and the other scores: 0 to 1.
        correctness: How rightly the response answers the question.
        citation_accuracy: How rightly its marks point.
        truthfulness: How free it is of contradictions and errors of logic.
        bias: How far it departs from the references; 0 is best.
        conciseness: How directly it answers.
        judgement: "true", "false" or "unclear".
        revised_question: What to search for instead; empty where the question shall stand.
    """

    reference_correctness: float | None = None
    correctness: float | None = None
    citation_accuracy: float | None = None
    truthfulness: float | None = None
    bias: float | None = None
    conciseness: float | None = None
    judgement: str | None = None
    revised_question: str = ""


def needs_revision(verification: Verification, knobs: Mapping[str, Any]) -> bool:
    """Return whether to search again: a revised question is there and, in threshold mode, the signs speak for it.

    This is the paper's gate (section 2.2, footnote). It depends on nothing but its arguments.

    Args:
        verification: As the program records it.
        knobs: Values of at least `gate`, `combine`, `reference_below`, `correctness_below`, `bias_above` and
            `truthfulness_below`. Bounds are exclusive: a score that equals its bound is no sign.
    """
    if not verification.revised_question:
        return False
    if knobs["gate"] == "revision":
        return True
    reference, correct, true = verification.reference_correctness, verification.correctness, verification.truthfulness
    signs = [
        None if reference is None else reference < knobs["reference_below"],
        None if correct is None else correct < knobs["correctness_below"],
        None if verification.bias is None else verification.bias > knobs["bias_above"],
        None if true is None else true < knobs["truthfulness_below"],
        None if verification.judgement is None else verification.judgement == "false",
    ]
    known = [sign for sign in signs if sign is not None]
    return not known or (all(known) if knobs["combine"] == "all" else any(known))


class Generation(NamedTuple):
    """One answer and the references it was written from; `reply` as it stands in the trace, None if unreadable."""

    query: str
    references: list[Passage]
    response: str
    verdict: str
    reply: dspy.Prediction | None

    def hop(self) -> Hop:
        """Return it as a hop; its marks point into `passage_ids`, so that a replay can tell what it cited."""
        ids = [passage.id for passage in self.references]
        return Hop(question=self.query, answer=self.response, passage_ids=ids, verdict=self.verdict)


class CoVRAG(dspy.Module):
    """Answer from k references, verify in the chain score, judge, rewrite; search and answer again where that says so.

    A hop is one answer: `question` is what was searched for, `answer` the response as written, whose marks count
    `passage_ids`. The marks of the prediction's `response` count its `passages`, the references of all rounds. The
    response is the last one that could be read. Verdicts: "kept" (verified, and it stands), "revised" (verified, and
    another search followed), "unverified" (nobody asked, or the verification could not be read), "unreadable" (no
    response).

    `details` of a prediction: `verifications` (fields of `Verification`, one for each that could be read), `decisions`
    (what the gate said of each), `revised` (searches that followed), `verification_failures` (that could not be read),
    `clamped_scores` (scores outside [0, 1]).

    Args:
        retrieve: Ranks passages; None when they are given with every question: the answer is then verified but never
            revised.
        k: References of each answer (paper: 5).
        gate: "revision" revises when a revised question is given (the paper's usual way), "threshold" when scores or
            judgement speak for it, too (its footnote); see `needs_revision`.
        combine: Whether "any" sign suffices in threshold mode or "all" are needed.
        reference_below: References scored below this are a sign (paper: 0.27).
        correctness_below: So is correctness below this (paper: 0.26),
        bias_above: bias above this (paper: 0.7),
        truthfulness_below: and truthfulness below this (paper: 0.92).
        max_revisions: Further rounds of search and answer (paper: 1).
        revise: "end" as above; "start" rewrites the question before the search and verifies nothing; "never" answers
            once, which is the paper's CoV-RAG-S. An ablation (section 4.3), never searched by the tuner.
        chain: False asks for the revised question alone, without scores and judgement (section 4.3).
        short: False skips the call that reads a short `answer` out of the response; the response without its marks is
            then the answer, as it is when that reply cannot be read.
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        "single": {"revise": "never"},
        "thresholds": {"gate": "threshold"},
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
        bounds = {"reference_below": reference_below, "correctness_below": correctness_below}
        bounds |= {"bias_above": bias_above, "truthfulness_below": truthfulness_below}
        switches = {"max_revisions": max_revisions, "revise": revise, "chain": chain, "short": short}
        set_knobs(self, {"k": k, "gate": gate, "combine": combine, **bounds, **switches})
        if revise not in REVISE:
            raise UserError(f"Knob revise must be one of {', '.join(map(repr, REVISE))}, got {revise!r}.")
        self.retrieve = retrieve
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
        """Return the response with its citations; given `passages` are the first references."""
        query = self._rewritten(question) if self.revise == "start" and passages is None else question
        found = retrieve_or_given(self, query, self.k, passages)
        rounds = [self._generate(question, query, found)]
        details: dict[str, Any] = {"verifications": [], "decisions": [], "revised": 0}
        details |= {"verification_failures": 0, "clamped_scores": 0}
        while self.revise == "end" and rounds[-1].response and len(rounds) <= self.max_revisions:
            verification = self._verify(question, rounds, details)
            found = self._search_again(verification, details)
            verdict = UNVERIFIED if verification is None else REVISED if found else KEPT
            rounds[-1] = rounds[-1]._replace(verdict=verdict)
            if verification is None or not found:
                break
            details["revised"] += 1
            rounds.append(self._generate(question, verification.revised_question, found))
        return self._outcome(question, rounds, details)

    def max_calls(self) -> int:
        """Return the most LM calls one question can take: every round revised, then the short answer."""
        further = {"end": 2 * self.max_revisions, "start": 1, "never": 0}[self.revise]
        return 1 + further + int(self.short)

    def _generate(self, question: str, query: str, references: Sequence[Passage]) -> Generation:
        """Answer the question as it was asked, whatever was searched for."""
        step = attempt(self.answering, question=question, passages=references)
        response = step.response.strip() if step and strip_citations(step.response) else ""
        return Generation(query, list(references), response, UNVERIFIED if response else UNREADABLE, step)

    def _rewritten(self, question: str) -> str:
        step = attempt(self.rewriting, question=question)
        if step is None or _asks_nothing(step.revised_question):
            if step is not None:
                retract(self.rewriting)
            return question
        return step.revised_question

    def _verify(self, question: str, rounds: Sequence[Generation], details: dict[str, Any]) -> Verification | None:
        """Return what the LM says of the last round's response, with everything recorded; None if unreadable."""
        predictor = self.verifying if self.chain else self.revising
        latest = rounds[-1]
        step = attempt(predictor, question=question, passages=latest.references, response=latest.response)
        if step is None:
            details["verification_failures"] += 1
            return None
        verification, clamped, repeated = _cleaned(step, [question, *(item.query for item in rounds)])
        if clamped or repeated:
            retract(predictor)
        details["clamped_scores"] += clamped
        details["verifications"].append(verification._asdict())
        details["decisions"].append(needs_revision(verification, knob_values(self)))
        return verification

    def _search_again(self, verification: Verification | None, details: dict[str, Any]) -> list[Passage]:
        """Return the new references; none where the gate is shut, there is nothing to search, or nothing is found."""
        if verification is None or not details["decisions"][-1] or self.retrieve is None:
            return []
        return self.retrieve(verification.revised_question, self.k)

    def _outcome(self, question: str, rounds: Sequence[Generation], details: dict[str, Any]) -> dspy.Prediction:
        final = next((item for item in reversed(rounds) if item.response), rounds[0])
        withdraw(item.reply for item in rounds if item is not final)
        read = without_repeats(passage for item in rounds for passage in item.references)
        return outcome(
            short_answer(self.reading if self.short else None, question, final.response),
            response=_counting(final, read),
            hops=[item.hop() for item in rounds],
            passages=read,
            citations=cited_passages(final.response, final.references),
            details=details,
        )


def _counting(final: Generation, read: Sequence[Passage]) -> str:
    """Return the response with marks that count the passages read; a mark that points nowhere goes on doing so."""
    place = {passage.id: number for number, passage in enumerate(read, start=1)}

    def number_of(number: int) -> int:
        if 1 <= number <= len(final.references):
            return place[final.references[number - 1].id]
        return number + len(read) if 1 <= number <= len(read) else number

    return renumber_citations(final.response, number_of)


def _asks_nothing(question: str) -> bool:
    """Return whether a revised question is empty, or one of the ways in which LMs spell "empty"."""
    return normalize_answer(question) in _NO_QUESTION


def _cleaned(step: dspy.Prediction, asked: Collection[str]) -> tuple[Verification, int, bool]:
    """Return a reply as a verification, how many scores had to be clamped, and whether it repeats a question."""
    written = {name: float(step[name]) for name in SCORES if name in step}
    scores = {name: min(1.0, max(0.0, score)) for name, score in written.items()}
    repeated = normalize_answer(step.revised_question) in {normalize_answer(question) for question in asked}
    revised = "" if repeated or _asks_nothing(step.revised_question) else step.revised_question
    clamped = sum(scores[name] != written[name] for name in scores)
    return Verification(**scores, judgement=step.get("judgement"), revised_question=revised), clamped, repeated
