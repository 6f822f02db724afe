"""CoV-RAG's training data: one half of the questions teaches to answer, the other to verify answers, also wrong ones.

He et al., "Retrieving, Rethinking and Revising: The Chain-of-Verification Can Improve Retrieval Augmented Generation",
Findings of EMNLP 2024, section 2.3. https://arxiv.org/abs/2410.05801

The questions are divided into two equal parts. On the first, the student learns the answers of the teacher from
retrieved references. On the second,

1. references are retrieved and a seed model answers from them, rightly or wrongly;
2. wrong responses are added (`negatives.py`);
3. each response gets scores, a judgement and a revised question: from gold, from the teacher (`VerifyAnswer`), or
   scores from gold and a revised question of the teacher where gold has none;
4. both halves are trained together, without weights.

Labels from gold follow fixed rules; the scores are those of `verification_scores.py`. Gold decides nothing where an
answer occurs in the question ("Which is older, A or B?"), since a wrong response contains it as well.

- judgement: "true" if correctness is 1, "unclear" if it is 0.5 or the response declines, else "false". With `strict`, a
  right response must also reach the paper's bounds of high quality (citations 1, conciseness above 0.5; table 4).
- revised_question: empty if the judgement is true; else the first gold sub-question whose passages the references
  lack, else the last one. Without gold sub-questions it asks for a gold passage that the references lack and that the
  question or a reference names (`gold.annotation.Annotation.missing_query`); else it is unknown.

A program without the chain (`chain=False`; table 6) learns the revised question alone, from the same responses.

Departure: the paper's seed model is trained on the first half; here it is any LM that is named. Its teacher (GPT-4)
sees no gold, and a sample of its labels is compared with gold (93 % right); here every judgement is
(`judgement_agrees_with_gold`). The number of added wrong responses is not stated; here it is one for each question.
"""

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import dspy

from corpora.passages import PassageRecord
from corpora.questions import Question
from optimizers.distill.gold.annotation import annotate, as_question
from optimizers.distill.mixture import MADE_LABELS, MADE_SOURCE
from optimizers.distill.negatives import incomplete_query, with_repetition, with_wrong_citations, wrong_references
from optimizers.distill.recipes import Cut, Running, ask, marks_exist, predictor_of, running_lm
from optimizers.distill.specs import VerificationSettings
from optimizers.distill.student import Made, QuestionSource, StudentPrompts
from optimizers.distill.trajectories import TrajectoryStep
from optimizers.distill.verification_scores import citation_accuracy, correctness, scores_of
from programs.parts.questions import find_question
from programs.parts.verification import SCORES
from signatures.citation_marks import strip_citations
from signatures.common.specs import deciding
from signatures.refusals import refuses
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage, Retriever
from signatures.yes_no import parse_yes_no

HIGH_CITATION, HIGH_CONCISENESS = 1.0, 0.5


def gold_verification(
    question: Question, references: Sequence[Passage], response: str, *, strict: bool = False
) -> dict[str, Any] | None:
    """Return the outputs of `VerifyAnswer` by these rules, without `revised_question`; None if gold cannot say.

    Args:
        question: With gold answers, and gold ids or answers that references can state.
        references: As shown with the response.
        response: With its marks; empty if there was none.
        strict: Whether wrong citations and repetition make a right response false.
    """
    if not question.answers or _names_an_answer(question):
        return None
    declines = not strip_citations(response) or refuses(response)
    if not declines and _leaves_verdict_open(question, response):
        return None
    right = 0.0 if declines else correctness(response, question.answers)
    scores = scores_of(question, references, response, right=right)
    if scores["reference_correctness"] is None:
        return None
    judgement = "true" if right == 1 else "unclear" if right or declines else "false"
    high = scores["citation_accuracy"] == HIGH_CITATION and (scores["conciseness"] or 0.0) > HIGH_CONCISENESS
    if strict and judgement == "true" and not high:
        judgement = "false"
    return {**scores, "judgement": judgement}


def gold_revision(
    question: Question, references: Sequence[Passage], corpus: Mapping[str, PassageRecord] | None = None
) -> str:
    """Return the question to search for by the rule above; empty if gold does not give one.

    Args:
        question: With its gold.
        references: As shown with the response.
        corpus: Passages by id; needed where there are no gold sub-questions.
    """
    shown = frozenset(passage.id for passage in references)
    parts = [part for part in question.sub_questions if same_words(part.question) != same_words(question.question)]
    lacking = [part for part in parts if part.gold_ids and not shown.issuperset(part.gold_ids)]
    if chosen := lacking[:1] or parts[-1:]:
        return find_question(chosen[0].question)
    annotation = annotate(question, corpus) if corpus else None
    missing = annotation.missing_query(shown) if annotation else None
    return find_question(as_question(missing)) if missing else ""


def _leaves_verdict_open(question: Question, response: str) -> bool:
    """Return whether the gold answer is yes or no, and the response says it in other words ("both are French")."""
    if any(parse_yes_no(answer) is None for answer in question.answers):
        return False
    return not {"yes", "no"} & set(text_words(strip_citations(response)))


def _names_an_answer(question: Question) -> bool:
    answers = [answer for answer in question.answers if parse_yes_no(answer) is None]
    return any(contains_words(question.question, answer) for answer in answers)


ANSWERING, VERIFYING, REVISING = "answering", "verifying", "revising"
_WORSE = 4  # times k: how far down the ranking wrong references are taken from


class ResponseSample(NamedTuple):
    """A response to verify: how it came about, what was shown, and the response with its marks."""

    kind: str
    references: list[Passage]
    response: str


def answer_half(ids: Iterable[str], share: float, seed: int = 0) -> frozenset[str]:
    """Return the ids of the questions that teach to answer: exactly that share, rounded, chosen by a hash."""
    ordered = sorted(set(ids), key=lambda name: hashlib.sha256(f"half:{seed}:{name}".encode(errors="replace")).digest())
    return frozenset(ordered[: round(share * len(ordered))])


@dataclass(frozen=True)
class VerificationDistillation:
    """The recipe; the running LM is the teacher.

    Args:
        program: CoV-RAG, which has the predictors "answering" and "verifying", or "revising" without the chain.
        student: Whom the examples are for.
        retrieve: Ranks the references.
        answering: Ids of the questions that teach to answer (`answer_half`).
        labels: Written into examples of the teacher, "teacher:NAME".
        seed_model: The LM that answers the questions to verify; by default the teacher.
        corpus: Passages by id, for revised questions of questions without gold sub-questions.
        settings: Shares, wrong responses, labels.
        seed: Seed of every random choice.
    """

    program: dspy.Module
    student: StudentPrompts
    retrieve: Retriever
    answering: frozenset[str]
    labels: str
    seed_model: Running = running_lm
    corpus: Mapping[str, PassageRecord] | None = None
    settings: VerificationSettings = field(default_factory=VerificationSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (ANSWERING, self.verifier):
            predictor_of(self.program, name, "cov_rag")

    @property
    def verifier(self) -> str:
        """The name of the predictor that verifies."""
        return VERIFYING if getattr(self.program, "chain", True) else REVISING

    def describe(self) -> dict[str, Any]:
        """Return the settings."""
        settings = deciding(VerificationSettings, self.settings, means=list(self.settings.means))
        return {**settings, "answering": len(self.answering)}

    def max_calls(self, question: Question) -> int:
        """Return the most LM calls of a question that teaches to verify: a response and a verdict for each sample."""
        return 2 * (1 + self.settings.negatives)

    def __call__(self, question: Question, source: QuestionSource) -> Made:
        """Return the examples of a question."""
        made = Made()
        if question.id in self.answering:
            made.trajectories = 1
            if broken := self._add_answer(made, question, source):
                made.rejected_trajectories[broken] += 1
            return made
        for sample, broken in self._samples(question):
            made.trajectories += 1
            broken = broken or (self._add_verification(made, sample, question, source) if sample else None)
            if broken:
                made.rejected_trajectories[broken] += 1
        return made

    def _add_answer(self, made: Made, question: Question, source: QuestionSource) -> str | None:
        """Add the example of the teacher's answer; return the rule that rejects it, if one does."""
        references = self.retrieve(question.question, self.settings.k)
        try:
            response = self._answer(question.question, references, running_lm)
        except Cut as cut:
            return cut.rule
        if response is None:
            return "every_reply_parsed"
        step = TrajectoryStep(
            ANSWERING, {"passages": references, "question": question.question}, {"response": response}
        )
        verified = gold_verification(question, references, response)
        if verified is None:
            return "gold_decides"
        if verified["correctness"] < 1:
            return "answer_is_right"
        if not marks_exist(step):
            return "marks_exist"
        if not citation_accuracy(question, references, response):
            return "citation_supports"
        made.kinds["answer"] += 1
        self.student.add(made, step, question_id=question.id, source=source, labels=self.labels)
        return None

    def _samples(self, question: Question) -> Iterator[tuple[ResponseSample | None, str | None]]:
        rng = random.Random(f"{self.seed}:{question.id}")
        references = self.retrieve(question.question, self.settings.k)
        first, broken = self._sample("seed", question, references)
        yield first, broken
        turn = rng.randrange(len(self.settings.means)) if self.settings.means else 0
        for number in range(self.settings.negatives):
            means = self.settings.means[(turn + number) % len(self.settings.means)]
            yield self._negative(means, question, first, rng)

    def _negative(
        self, means: str, question: Question, first: ResponseSample | None, rng: random.Random
    ) -> tuple[ResponseSample | None, str | None]:
        if means == "retrieval":
            ranked = self.retrieve(question.question, _WORSE * self.settings.k)
            wrong = wrong_references(ranked, question.gold_ids, question.answers, self.settings.k)
            return self._sample(means, question, wrong)
        if means == "query":
            found = self.retrieve(incomplete_query(question.question, rng), self.settings.k)
            return self._sample(means, question, found)
        if first is None:
            return None, "response_to_change"
        if means == "repetition":
            return first._replace(kind=means, response=with_repetition(first.response, rng)), None
        changed = with_wrong_citations(first.response, len(first.references), rng)
        if changed is None:
            return None, "citations_to_change"
        return first._replace(kind=means, response=changed), None

    def _sample(
        self, kind: str, question: Question, references: list[Passage]
    ) -> tuple[ResponseSample | None, str | None]:
        """Return what the seed model answers from references, or the rule that this breaks."""
        if not references:
            return None, "references_found"
        try:
            response = self._answer(question.question, references, self.seed_model)
        except Cut as cut:
            return None, cut.rule
        return (None, "every_reply_parsed") if response is None else (ResponseSample(kind, references, response), None)

    def _answer(self, question: str, references: Sequence[Passage], on: Running) -> str | None:
        """Return a response with words, None if there is none or it cannot be parsed."""
        reply = ask(predictor_of(self.program, ANSWERING, "cov_rag"), on, question=question, passages=list(references))
        return reply.response.strip() if reply and strip_citations(reply.response) else None

    def _add_verification(
        self, made: Made, sample: ResponseSample, question: Question, source: QuestionSource
    ) -> str | None:
        """Add the example of a verified response; return the rule that rejects it, if one does."""
        by_gold = gold_verification(question, sample.references, sample.response, strict=self.settings.strict)
        if by_gold is None:
            return "gold_decides"
        labels = MADE_LABELS if source.name == MADE_SOURCE else "gold"
        revision = gold_revision(question, sample.references, self.corpus)
        if self.settings.labels == "teacher" or (
            self.settings.labels == "both" and by_gold["judgement"] != "true" and not revision
        ):
            labels = self.labels
            try:
                judged = self._judged(sample, question)
            except Cut as cut:
                return cut.rule
            if judged is None:
                return "every_reply_parsed"
            revision = find_question(judged["revised_question"])
            if self.settings.labels == "teacher":
                if broken := _broken_verdict(judged, by_gold):
                    return broken
                by_gold |= {name: judged[name] for name in by_gold if name in judged}
        if by_gold["judgement"] == "true":
            revision = ""
        elif not revision or same_words(revision) == same_words(question.question):
            return "revision_is_known"
        inputs = {"passages": sample.references, "question": question.question, "response": sample.response}
        scored = by_gold if self.verifier == VERIFYING else {}
        step = TrajectoryStep(self.verifier, inputs, {**scored, "revised_question": revision})
        if self.student.add(made, step, question_id=question.id, source=source, labels=labels):
            made.kinds[f"{sample.kind}: {by_gold['judgement']}"] += 1
        return None

    def _judged(self, sample: ResponseSample, question: Question) -> dict[str, Any] | None:
        """Return the outputs of the teacher's verification; None if they cannot be parsed."""
        verifying: Any = predictor_of(self.program, self.verifier, "cov_rag")
        inputs: dict[str, Any] = {"passages": sample.references, "question": question.question}
        inputs["response"] = sample.response
        names = list(verifying.signature.output_fields)
        if self.settings.show_gold:
            gold = dspy.InputField(desc="accepted answers, which the response is compared with")
            verifying = dspy.Predict(verifying.signature.append("gold_answers", gold, list[str]))
            inputs["gold_answers"] = list(question.answers)
        reply = ask(verifying, **inputs)
        return None if reply is None else {name: reply[name] for name in names}


def _broken_verdict(judged: dict[str, Any], by_gold: dict[str, Any]) -> str | None:
    """Return the rule that a teacher's verification breaks: its judgement must be that of the gold answer.

    Without the chain there is no judgement, and a right response must not be revised.
    """
    if any(not 0 <= float(judged[name]) <= 1 for name in SCORES if name in judged):
        return "scores_in_range"
    if "judgement" in judged and (judged["judgement"] == "true") != (by_gold["correctness"] == 1):
        return "judgement_agrees_with_gold"
    if judged.get("judgement", by_gold["judgement"]) == "true" and find_question(judged["revised_question"]):
        return "revision_follows_judgement"
    return None
