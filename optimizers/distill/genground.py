"""GenGround's instructional grounding distillation: a student learns to ground a draft in noisy passages.

Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024, section
4 and appendix III. https://arxiv.org/abs/2406.14891

1. Seed questions with one gold passage each (the paper: 50,000 single-hop questions of Natural Questions).
2. A smaller LM answers the question from memory: the draft.
3. The teacher grounds the draft in the gold passage alone, and gives the evidence and the revised answer.
4. The student learns that reply for the gold passage among noise (equation 4).

Kept are replies with evidence, with an answer, and with an answer that agrees with the gold (the paper keeps 45,710).

Departure: the paper does not say how many noise passages there are; here they fill the batch that GenGround reads at a
time (three). The paper does not say how an answer is compared with the gold evidence; here the evidence must occur in
the gold passage, and the answer must contain a gold answer (its accuracy). A sub-question of a gold decomposition
serves as a seed, too. The paper's data has no reply without evidence, so its student never learns to pass over a batch;
`empty_share` adds such examples.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import dspy

from corpora.questions import Question
from optimizers.distill.mixture import MADE_LABELS, MADE_SOURCE
from optimizers.distill.negatives import states_any
from optimizers.distill.recipes import Cut, Running, TrajectoryRule, ask, predictor_of, running_lm
from optimizers.distill.specs import GroundingSettings
from optimizers.distill.student import Made, QuestionSource, StudentPrompts
from optimizers.distill.trajectories import Trajectory, TrajectoryStep
from programs.parts.passages import find_quote
from signatures.common.specs import deciding
from signatures.reading import AnswerFromMemory
from signatures.text_words import same_words
from signatures.types import Passage, Retriever
from signatures.voting import is_answer

GROUNDING = "grounding"


class GroundingSeed(NamedTuple):
    """What is grounded: a question, its part that is asked now, and that part's gold."""

    question: str
    sub_question: str
    answers: list[str]
    gold_id: str


def seeds_of(question: Question) -> list[GroundingSeed]:
    """Return the parts of a question that have one gold passage and an answer: itself, or its sub-questions."""
    gold = list(dict.fromkeys(question.gold_ids))
    if len(gold) == 1 and question.answers:
        return [GroundingSeed(question.question, question.question, list(question.answers), gold[0])]
    return [
        GroundingSeed(question.question, part.question, [part.answer], part.gold_ids[0])
        for part in question.sub_questions
        if part.answer and len(set(part.gold_ids)) == 1
    ]


@dataclass(frozen=True)
class GroundingDistillation:
    """The recipe; the running LM is the teacher.

    Args:
        program: GenGround, which has the teacher's predictor "grounding".
        student: Whom the examples are for.
        corpus: Passages by id, with the gold.
        retrieve: Ranks the noise.
        agrees: The rule that an answer agrees with the gold (`recipes.answer_is_right`).
        labels: Written into the examples, "teacher:NAME".
        drafts: The LM that drafts; by default the teacher.
        settings: Batch, filter and share of empty examples.
        seed: Seed of the order of passages and of the choice of empty examples.
    """

    program: dspy.Module
    student: StudentPrompts
    corpus: Mapping[str, Passage]
    retrieve: Retriever
    agrees: TrajectoryRule
    labels: str
    drafts: Running = running_lm
    settings: GroundingSettings = field(default_factory=GroundingSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        predictor_of(self.program, GROUNDING, "genground")

    def describe(self) -> dict[str, Any]:
        """Return the settings."""
        return deciding(GroundingSettings, self.settings)

    def max_calls(self, question: Question) -> int:
        """Return the LM calls of a question: a draft and a grounding of each part."""
        return 2 * len(seeds_of(question))

    def __call__(self, question: Question, source: QuestionSource) -> Made:
        """Return the examples of a question, one for each part with one gold passage."""
        made = Made()
        seeds = seeds_of(question)
        if not seeds:
            made.trajectories, made.rejected_trajectories["one_gold_passage"] = 1, 1
        for number, item in enumerate(seeds):
            made.trajectories += 1
            rng = random.Random(f"{self.seed}:{question.id}:{number}")
            if broken := self._add(made, item, question, source, rng):
                made.rejected_trajectories[broken] += 1
        return made

    def _add(
        self, made: Made, item: GroundingSeed, question: Question, source: QuestionSource, rng: random.Random
    ) -> str | None:
        """Add the examples of a seed; return the rule that rejects the teacher's reply, if one does."""
        gold = self.corpus.get(item.gold_id)
        if gold is None:
            return "gold_passage_in_corpus"
        try:
            draft, reply = self._draft_and_revision(item, gold)
        except Cut as cut:
            return cut.rule
        noise = self._noise(item, question)
        inputs = {"question": item.question, "sub_question": item.sub_question, "draft": draft}
        empty = rng.random() < self.settings.empty_share
        broken = self._broken(item, gold, reply)
        if broken is None and reply is not None:
            batch = [gold, *noise[: self.settings.batch_size - 1]]
            rng.shuffle(batch)
            step = TrajectoryStep(
                GROUNDING, {"passages": batch, **inputs}, {"evidence": reply.evidence, "answer": reply.answer}
            )
            self.student.add(made, step, question_id=question.id, source=source, labels=self.labels)
        silent = [passage for passage in noise if not states_any(passage, item.answers)][: self.settings.batch_size]
        if empty and draft and silent:
            step = TrajectoryStep(GROUNDING, {"passages": silent, **inputs}, {"evidence": "", "answer": draft})
            labels = MADE_LABELS if source.name == MADE_SOURCE else "gold"
            self.student.add(made, step, question_id=question.id, source=source, labels=labels)
        return broken

    def _draft_and_revision(self, item: GroundingSeed, gold: Passage) -> tuple[str, dspy.Prediction | None]:
        """Return the draft, empty if it cannot be parsed, and the teacher's reply on the gold passage."""
        drafted = ask(dspy.Predict(AnswerFromMemory), self.drafts, question=item.sub_question)
        draft = drafted.answer.strip() if drafted else ""
        grounding = predictor_of(self.program, GROUNDING, "genground")
        reply = ask(grounding, passages=[gold], question=item.question, sub_question=item.sub_question, draft=draft)
        return draft, reply

    def _broken(self, item: GroundingSeed, gold: Passage, reply: dspy.Prediction | None) -> str | None:
        if reply is None:
            return "every_reply_parsed"
        if not reply.evidence.strip():
            return "evidence_is_given"
        if not is_answer(reply.answer):
            return "answer_is_given"
        if find_quote(reply.evidence, [gold]).passage is None:
            return "evidence_is_quoted"
        example = dspy.Example(question=item.sub_question, answers=item.answers)
        revised = Trajectory(dspy.Prediction(answer=reply.answer, response=reply.answer))
        return None if self.agrees(revised, example) else "answer_agrees_with_gold"

    def _noise(self, item: GroundingSeed, question: Question) -> list[Passage]:
        """Return passages that are gold for no part of the question, as the retriever ranks them."""
        gold = {*question.gold_ids, *(name for part in question.sub_questions for name in part.gold_ids), item.gold_id}
        texts = {same_words(self.corpus[name].text) for name in gold if name in self.corpus}
        wanted = 2 * self.settings.batch_size + len(gold)
        found = self.retrieve(item.sub_question, wanted)
        return [passage for passage in found if passage.id not in gold and same_words(passage.text) not in texts]
