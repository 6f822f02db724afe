"""The record of a metric, what it needs of a question and of a prediction, and which of it they lack.

A metric without the gold it needs is undefined. Where a prediction is read from a file, it may also lack what the
program had (the text of the passages, its hops): metrics then would score 0 what is unknown, so that `score` leaves
them undefined and names the need.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from optimizers.metrics import fields
from optimizers.metrics.citations import references_of
from optimizers.metrics.entailment.oracle import Entails, Pair
from optimizers.metrics.retrieval import converted_article
from signatures.citation_marks import citation_numbers


class Need(StrEnum):
    """Something a metric needs, as `verihop metrics` shows it."""

    ANSWERS = "gold answers"
    GOLD_IDS = "gold ids"
    GOLD_SENTENCES = "gold sentences"
    GOLD_ARTICLES = "gold titles"
    KEY_FACTS = "key facts"
    SHORT_ANSWERS = "short answers of sub-questions"
    SUB_QUESTIONS = "gold sub-questions"
    PASSAGES = "ids of the passages read"
    TITLES = "titles of the passages read"
    TEXTS = "texts of the passages read"
    CITATIONS = "citations"
    CITED_TEXTS = "texts of the passages cited"
    HOPS = "hops"
    FACTS = "predicted supporting facts or quoted evidence"
    QUOTED_TEXTS = "texts of the passages quoted from"
    VERIFICATIONS = "verifications (cov_rag)"
    ORACLE = "entailment oracle"
    JUDGE = "judge LM"


OF_QUESTION = frozenset(
    {
        Need.ANSWERS,
        Need.GOLD_IDS,
        Need.GOLD_SENTENCES,
        Need.GOLD_ARTICLES,
        Need.KEY_FACTS,
        Need.SHORT_ANSWERS,
        Need.SUB_QUESTIONS,
    }
)
"""Needs that the question fills."""

OF_CORPUS = frozenset({Need.TEXTS, Need.TITLES, Need.CITED_TEXTS, Need.QUOTED_TEXTS})
"""Needs that the passages of the corpus fill."""


def lacking(example: Any, prediction: Any) -> frozenset[Need]:
    """Return what a question and a prediction lack.

    Args:
        example: The question with its gold fields.
        prediction: A field that is absent or None is unknown; an empty one is known to be empty.
    """
    has = {
        Need.ANSWERS: bool(fields.golds_of(example)),
        Need.GOLD_IDS: bool(fields.gold_ids_of(example)),
        Need.GOLD_SENTENCES: bool(fields.gold_sentences_of(example)),
        Need.GOLD_ARTICLES: bool(fields.gold_articles_of(example)),
        Need.KEY_FACTS: bool(fields.key_facts_of(example)),
        Need.SHORT_ANSWERS: bool(fields.short_answers_of(example)),
        Need.SUB_QUESTIONS: bool(getattr(example, "sub_questions", None)),
        **_of_prediction(prediction),
    }
    return frozenset(need for need, there in has.items() if not there)


def _of_prediction(prediction: Any) -> dict[Need, bool]:
    known = {name for name in ("passages", "citations", "hops") if getattr(prediction, name, None) is not None}
    passages = fields.passages_of(prediction)
    details = getattr(prediction, "details", None) or {}
    marks = citation_numbers(fields.response_of(prediction))  # they count the passages
    facts = getattr(prediction, "supporting_facts", None) is not None
    return {
        Need.PASSAGES: "passages" in known,
        Need.TITLES: "passages" in known and all(each.title or converted_article(each.id) for each in passages),
        Need.TEXTS: "passages" in known and all(each.text.strip() for each in passages),
        Need.CITATIONS: "citations" in known and ("passages" in known or not marks),
        Need.CITED_TEXTS: "passages" in known and _cited_texts(prediction),
        Need.HOPS: "hops" in known,
        Need.FACTS: facts or "hops" in known,
        # Of all passages, although only some are quoted from: else answers that quote nothing were the ones scored.
        Need.QUOTED_TEXTS: facts or ("passages" in known and all(each.text.strip() for each in passages)),
        Need.VERIFICATIONS: "verifications" in details,
    }


def _cited_texts(prediction: Any) -> bool:
    references = references_of(prediction)
    marks = citation_numbers(fields.response_of(prediction))
    return all(references[mark - 1].text.strip() for mark in marks if 1 <= mark <= len(references))


@dataclass(frozen=True)
class Metric:
    """A score of one question.

    A reply or verdict that cannot be parsed scores as a wrong answer and is recorded in the current meter
    (`programs.parts.meter`, `parse_failures`), so that the runner counts it as unparsed.

    Args:
        name: Its name in tables, with the definition in brackets if there are several definitions.
        definition: What is scored, in one or two sentences; stored with every run.
        function: Takes an example with gold fields and a prediction and returns a score; None if the question lacks
            the gold that the metric needs. It never averages: `experiments/analysis/statistics.py` does.
        source: URL of the published definition.
        higher_is_better: The direction of improvement.
        judge_calls: LM calls of a judge at most; above 0 the function needs
            `optimizers.metrics.judges.answer_judge.judged_by`.
        needs: What the question and the prediction must have, so that the score means something.
    """

    name: str
    definition: str
    function: Callable[[Any, Any], float | None]
    source: str
    higher_is_better: bool = True
    judge_calls: int = 0
    needs: tuple[Need, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether an LM decides."""
        return self.judge_calls > 0

    @property
    def described(self) -> dict[str, str]:
        """Name and definition, as they are stored with what is made for the metric."""
        return {"name": self.name, "definition": self.definition}

    def __call__(self, example: Any, prediction: Any) -> float | None:
        """Return the score of one question."""
        return self.function(example, prediction)

    def of_answer(self, example: Any, prediction: Any, *, failed: bool) -> float | None:
        """Return the score of one question; a failed one has 0, or None if lower is better or it has no score."""
        value = self(example, prediction)
        if not failed or value is None:
            return value
        return 0.0 if self.higher_is_better else None


@dataclass(frozen=True)
class OracleMetric:
    """A score of one question that needs the verdicts of an entailment oracle.

    Args:
        definition: What is scored, in one or two sentences.
        pairs: Takes an example and a prediction and returns the (premise, hypothesis) pairs to judge.
        function: Takes an example, a prediction and the verdicts on those pairs and returns a score or None.
        source: URL of the published definition.
        needs: What the question and the prediction must have, so that the score means something.
        higher_is_better: The direction of improvement.
    """

    definition: str
    pairs: Callable[[Any, Any], list[Pair]]
    function: Callable[[Any, Any, Entails], float | None]
    source: str
    needs: tuple[Need, ...] = ()
    higher_is_better: bool = True
