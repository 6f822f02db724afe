"""MetaRAG: monitor an answer with a second reader, diagnose what is lacking, and answer again with a plan.

Zhou et al., "Metacognitive Retrieval-Augmented Large Language Models", WWW 2024, sections 3.2 (cognition), 3.3
(monitoring, evaluating, planning). https://arxiv.org/abs/2402.11626

1. Retrieve k passages for the question; answer with reasoning.
2. Monitor: a second reader answers from the same passages. If both answers are similar enough, or `max_rounds` rounds
   are used up, stop.
3. Evaluate: is a fault in reasoning or answer, does the LM know the answer itself, do the passages suffice?
4. Plan: where the passages do not suffice, search with a new query and add what it finds; choose the advice for what is
   lacking. Answer again with it; go to 2.

Departure: the paper's monitor is a trained question-answering model (T5), its check that an answer follows from the
reasoning an NLI model; here both are prompts to the same LM, the monitor without reasoning. Instructions take the place
of the paper's demonstrations, which compiling adds.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.longform import gives_answer
from programs.parts.passages import deduplicate, is_no_item, passages_supporting, passes
from programs.parts.prediction import (
    drop_from_trace,
    make_prediction,
    read_or_recall,
    retrieve_passages,
    settled,
    try_predict,
)
from programs.parts.probability import YesNoQuestion, YesNoScores, calls_per_probability
from programs.parts.stop_reasons import CAP, FINISHED, NOTHING_FOUND
from programs.parts.threads import in_parallel
from signatures.multi_step import meta_rag as prompts
from signatures.reading import REASONING, ReadAnswer
from signatures.text_words import contains_words
from signatures.types import Hop, Passage, Retriever, Similarity

AGREED, REVISED, GIVEN = "agreed", "revised", "given"
_YES = 0.5  # P(yes) above which a check counts as passed
_STEP_BY_STEP = "Think step by step."
_ADVICE = {  # (the LM knows the answer, the passages suffice) -> what to do
    (True, False): "Where the passages say nothing about it, rely on what you know yourself.",
    (False, True): "Rely on the passages alone, not on what you believe to know.",
    (False, False): "Break the question down into simpler ones, and answer each of them from the passages.",
}
_REASON = "The question needs several steps: go through each of them before you answer."
_CHECK = "Check the final answer: it must answer exactly what is asked, and contain nothing else."


class Attempt(NamedTuple):
    """An answer, the reasoning before it, and the reply that both are from; empty if it was unparseable."""

    answer: str
    reasoning: str
    reply: dspy.Prediction | None


class Diagnosis(NamedTuple):
    """What the evaluation found; P(yes) is None if it was unparseable, which counts as no."""

    feedback: str  # empty if no fault was found, or the reply was unparseable
    internal: float | None  # P(the LM knows the answer)
    external: float | None  # P(the passages suffice); None also where there are none

    @property
    def condition(self) -> tuple[bool, bool]:
        """Whether internal and external knowledge are there."""
        return passes(self.internal, _YES), passes(self.external, _YES)


class MetaRAG(dspy.Module):
    """Answer, compare with a second reader, and answer again with advice and more passages until both agree.

    A hop is one answer: its question is what was searched for (the question again, where nothing was), its passages
    those that the search added. Its verdict: "agreed" (with the second reader), "revised" (another answer followed),
    "given" (the last one, without agreement). `details`: `agreement` (similarity with the second reader, per answer;
    None if one of both is no answer or a refusal, or nothing was read), `conditions` (for each evaluation, whether the
    LM knows the answer, and whether the passages suffice), `feedback` (what each found faulty). With nothing to read
    (`passages=[]`, or a search that finds nothing) it answers from memory, asks no second reader, and searches once
    more if it can; if that finds nothing either, the answer stays.

    Args:
        retrieve: Ranks passages for a query.
        similarity: Compares the two answers (the public code: a MiniLM of Sentence-BERT). Departure: without one they
            are similar if one contains the words of the other, whatever the threshold.
        k: Passages for each search (the public code: 5, reranked; the retriever is free to).
        threshold: Cosine of both answers above which the answer is final (paper: best at about 0.4; public code: 0.3).
        max_rounds: Answers after the first one (the public code: 3).
    """

    PRESETS: dict[str, dict[str, Any]] = {
        "paper": {},
        # Departure: only the threshold; a query that is cut off before it begins, a monitor that does not see the
        # passages, and "no" found within words are not repeated.
        "code": {"threshold": 0.3},
        "small": {"k": 3, "max_rounds": 1},
    }

    def __init__(
        self,
        retrieve: Retriever | None = None,
        *,
        similarity: Similarity | None = None,
        k: Annotated[int, Range(1, 20)] = 5,
        threshold: Annotated[float, Range(0, 1)] = 0.4,
        max_rounds: Annotated[int, Range(1, 5)] = 3,
    ):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve, self.similarity = retrieve, similarity
        self.answering = dspy.ChainOfThought(ReadAnswer, REASONING)
        self.monitoring = dspy.Predict(ReadAnswer)
        self.evaluating = dspy.Predict(prompts.FindFault)
        self.knowing = dspy.Predict(prompts.KnowsAnswer)
        self.sufficing = dspy.Predict(prompts.PassagesSuffice)
        self.supporting = dspy.Predict(prompts.ReasoningSupports)
        self.searching = dspy.Predict(prompts.SearchMissing)
        self.advised = dspy.ChainOfThought(prompts.AnswerAdvised, REASONING)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the answer with all attempts; fixed `passages` replace the first retrieval (all without retriever)."""
        found = fresh = deduplicate(retrieve_passages(self, question, self.k, fixed=passages))  # step 1
        attempts = [_attempt(read_or_recall(self.answering, question, found))]
        others = [self._monitor(question, found)]
        query, scores = question, YesNoScores()
        hops: list[Hop] = []
        diagnoses: list[Diagnosis] = []
        agreement: list[float | None] = []
        while True:
            latest = attempts[-1]
            agreement.append(self._agreement(latest.answer, others[-1]))  # step 2
            agreed = passes(agreement[-1], self.threshold)
            nothing = not found and bool(diagnoses or self.retrieve is None)  # to read, now and later
            last = agreed or nothing or len(diagnoses) == self.max_rounds
            verdict = AGREED if agreed else GIVEN if last else REVISED
            ids = [passage.id for passage in fresh]
            hops.append(settled(Hop(question=query, answer=latest.answer, passage_ids=ids, verdict=verdict)))
            if last:
                break
            diagnoses.append(self._evaluate(question, found, latest, scores))  # step 3
            query, fresh = self._search(question, found, latest, diagnoses[-1])  # step 4
            found = [*found, *fresh]
            if not found:  # Departure: there is still nothing to answer from, so that the answer stays
                attempts.append(latest)
                continue
            advice = self._advice(question, latest, diagnoses[-1], scores)
            attempts.append(_attempt(try_predict(self.advised, question=question, passages=found, advice=advice)))
            if fresh:  # the second reader would repeat itself over the same passages
                others.append(self._monitor(question, found))
        # Departure: the last answer is returned, unless it declines: then the latest one before it.
        final = next((attempt for attempt in reversed(attempts) if gives_answer(attempt.answer)), attempts[-1])
        overruled = [other for other in others if not passes(self._agreement(final.answer, other), self.threshold)]
        drop_from_trace(*(each.reply for each in (*attempts, *overruled) if each is not final))
        answer = final.answer
        details = {
            "agreement": agreement,
            "conditions": [list(diagnosis.condition) for diagnosis in diagnoses],
            "feedback": [diagnosis.feedback for diagnosis in diagnoses],
        }
        return make_prediction(
            answer,
            stop_reason=FINISHED if agreed else NOTHING_FOUND if nothing else CAP,
            hops=hops,
            passages=found,
            citations=passages_supporting(question, answer, found),
            details=details,
        )

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question.

        The passages do not suffice, and a search finds new ones, in each round but the last: there, asking whether the
        reasoning supports the answer may cost more than a search and another reading.
        """
        probability = calls_per_probability()
        each = 2  # evaluation and the next answer
        searched = 1 + 1 + probability  # query, second reading, and whether the new passages suffice
        first = 2 + 2 * probability
        return first + self.max_rounds * each + (self.max_rounds - 1) * searched + max(2, probability)

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: two readings, and in each round two and a search."""
        return 2 + 4 * self.max_rounds  # evaluation with all P(yes) at once, query, answer, second reading

    def _monitor(self, question: str, passages: list[Passage]) -> Attempt:
        reply = try_predict(self.monitoring, question=question, passages=passages) if passages else None
        return Attempt(reply.answer.strip(), "", reply) if reply else Attempt("", "", None)

    def _agreement(self, answer: str, other: Attempt) -> float | None:
        """Return the similarity of two answers; None if one of them declines (Departure: it agrees with nothing)."""
        if not gives_answer(answer) or not gives_answer(other.answer):
            return None
        if self.similarity is None:
            return float(contains_words(answer, other.answer) or contains_words(other.answer, answer))
        return float(self.similarity([answer], [other.answer])[0][0])

    def _evaluate(self, question: str, found: list[Passage], latest: Attempt, scores: YesNoScores) -> Diagnosis:
        """Step 3, whose three calls are independent; what was asked about the same passages is not asked again."""
        # Departure: the critic sees the reasoning, too; an unparseable criticism finds no fault.
        said = {"question": question, "reasoning": latest.reasoning, "answer": latest.answer}
        checks = {"internal": YesNoQuestion(self.knowing, question=question)}
        if found:
            checks["external"] = YesNoQuestion(self.sufficing, passages=found, question=question)
        criticism, known = in_parallel(partial(try_predict, self.evaluating, **said), partial(scores.ask, checks))
        feedback = criticism.feedback.strip() if criticism and not criticism.correct else ""
        return Diagnosis("" if is_no_item(feedback) else feedback, known["internal"], known.get("external"))

    def _search(
        self, question: str, found: list[Passage], latest: Attempt, diagnosis: Diagnosis
    ) -> tuple[str, list[Passage]]:
        """Return the query of a further search and the new passages it finds; the question and none without one."""
        _, suffice = diagnosis.condition
        if suffice or self.retrieve is None:
            return question, []
        reply = try_predict(self.searching, question=question, passages=found, answer=latest.answer)
        # Departure: without a query ("None", or an unparseable reply) nothing is added, and the advice is given.
        if reply is None or is_no_item(reply.query):
            drop_from_trace(reply)
            return question, []
        held = {passage.id for passage in found}
        query = reply.query.strip()
        fresh = [passage for passage in deduplicate(self.retrieve(query, self.k)) if passage.id not in held]
        if not fresh:
            drop_from_trace(reply)
        return query, fresh

    def _advice(self, question: str, latest: Attempt, diagnosis: Diagnosis, scores: YesNoScores) -> str:
        """Return what to do differently: the plan for what is lacking, and what the critic found faulty."""
        plan = _ADVICE.get(diagnosis.condition)
        if plan is None:  # all knowledge is there, so that the reasoning is at fault
            said = {"question": question, "reasoning": latest.reasoning, "answer": latest.answer}
            support = scores.ask({"support": YesNoQuestion(self.supporting, **said)})["support"]
            plan = _CHECK if passes(support, _YES) else _REASON
        return f"{plan} {diagnosis.feedback or _STEP_BY_STEP}"


def _attempt(reply: dspy.Prediction | None) -> Attempt:
    return Attempt(reply.answer.strip(), reply.get("reasoning", "").strip(), reply) if reply else Attempt("", "", None)
