"""Converts functions of texts and ids to those of an example and a prediction, which a `Metric` contains; and costs.

Costs are read from a row of a run (`experiments/runs/files.py` documents the row). LM calls that the cache answered are
included, so that a repeated run does not look free; the `paid_` costs exclude them. Calls of a judge never count.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.metrics import answer, citations, fields, keyfact_scores, retrieval
from optimizers.metrics.citations import references_of
from optimizers.metrics.entailment.oracle import Entails, Pair
from programs.parts.meter import record
from signatures.citation_marks import strip_citations
from signatures.common.costs import asked, paid

Score = Callable[[Any, Any], float | None]
OracleScore = Callable[[Any, Any, Entails], float | None]


def on_answer(function: Callable[[str, list[str]], float | None]) -> Score:
    """Score the short answer against the accepted answers."""
    return lambda example, prediction: function(fields.answer_of(prediction), fields.golds_of(example))


def on_response(function: Callable[[str, list[str]], float | None]) -> Score:
    """Score the long response (the answer if there is none) against the accepted answers."""
    return lambda example, prediction: function(fields.response_of(prediction), fields.golds_of(example))


def token_overlap(part: str, definition: answer.Definition) -> Score:
    """Score the "f1", "precision" or "recall" of the short answer's tokens."""

    def score(example: Any, prediction: Any) -> float | None:
        overlap = answer.token_overlap(fields.answer_of(prediction), fields.golds_of(example), definition)
        return None if overlap is None else float(getattr(overlap, part))

    return score


def verdict(example: Any, prediction: Any) -> float | None:
    """Score the yes or no of the short answer; record an answer without a verdict as a parse failure."""
    text = fields.answer_of(prediction)
    value = answer.verdict_accuracy(text, fields.golds_of(example))
    if value is not None and text and answer.yes_or_no(answer.final_part(text)) is None:
        record(parse_failures=1)
    return value


def short_answers(combine: Callable[[list[float]], float]) -> Score:
    """Score which parts of an ambiguous question have a short answer in the response, combined to one number."""

    def score(example: Any, prediction: Any) -> float | None:
        text = strip_citations(fields.response_of(prediction))
        covered = [answer.cover_substring(text, golds) or 0.0 for golds in fields.short_answers_of(example)]
        return float(combine(covered)) if covered else None

    return score


def abstention(example: Any, prediction: Any) -> float:
    """Return 1.0 if the program abstained or returned no answer, else 0.0."""
    return float(bool(getattr(prediction, "abstained", False)) or not fields.answer_of(prediction).strip())


def on_read_ids(function: Callable[..., float | None], *k: int) -> Score:
    """Score the ids of the passages read against the gold ids; `k` is the cutoff, omitted for all passages."""
    return lambda example, prediction: function(fields.read_ids_of(prediction), fields.gold_ids_of(example), *k)


def title_recall(k: int) -> Score:
    """Score the recall of gold articles among the first `k` articles read."""

    def score(example: Any, prediction: Any) -> float | None:
        read = [retrieval.article(passage.id, passage.title) for passage in fields.passages_of(prediction)]
        return retrieval.recall_at(read, fields.gold_articles_of(example), k)

    return score


def annotator_recall(k: int) -> Score:
    """Score the best recall over the gold ids of each annotator among the first `k` passages read."""
    return lambda example, prediction: retrieval.best_recall_at(
        fields.read_ids_of(prediction), fields.gold_alternatives_of(example), k
    )


def hop_recall(k: int) -> Score:
    """Score the recall of gold ids among the first `k` passages of every hop."""
    return lambda example, prediction: retrieval.recall_at(
        retrieval.first_of_each(fields.hop_ids_of(prediction), k), fields.gold_ids_of(example)
    )


def hop_hit(k: int) -> Score:
    """Score the share of hops with a gold id among their first `k` passages."""
    return lambda example, prediction: retrieval.hop_hits(fields.hop_ids_of(prediction), fields.gold_ids_of(example), k)


def answer_in_context(k: int | None) -> Score:
    """Score whether one of the first `k` passages read (None: of all) contains an accepted answer."""

    def score(example: Any, prediction: Any) -> float | None:
        read = list({passage.id: passage for passage in fields.passages_of(prediction)}.values())[:k]
        return retrieval.answer_in_context(
            [f"{passage.title} {passage.text}" for passage in read], fields.golds_of(example)
        )

    return score


def on_cited_ids(function: Callable[[list[str], list[str]], float | None]) -> Score:
    """Score the ids that the response cites against the gold ids."""
    return lambda example, prediction: function(citations.cited_ids(prediction), fields.gold_ids_of(example))


def support_f1(example: Any, prediction: Any) -> float | None:
    """Score the ids in the prediction's `citations` against the gold ids."""
    return retrieval.support_f1(getattr(prediction, "citations", None) or [], fields.gold_ids_of(example))


def answerable_support_f1(example: Any, prediction: Any) -> float | None:
    """Score as `support_f1`; None for a question that its file marks as not answerable."""
    return None if getattr(example, "answerable", True) is False else support_f1(example, prediction)


def on_key_facts(function: Callable[[str, list[str], Entails], float | None]) -> OracleScore:
    """Score the response against the key facts by the verdicts of an oracle."""
    return lambda example, prediction, entails: function(
        fields.response_of(prediction), fields.key_facts_of(example), entails
    )


def on_citations(function: Callable[..., float | None]) -> OracleScore:
    """Score the response against the passages it cites by the verdicts of an oracle."""
    return lambda example, prediction, entails: function(
        fields.response_of(prediction), references_of(prediction), entails
    )


def key_fact_pairs(example: Any, prediction: Any) -> list[Pair]:
    """Return the pairs that the metrics of key facts ask an oracle about."""
    return keyfact_scores.pairs(fields.response_of(prediction), fields.key_facts_of(example))


def citation_pairs(example: Any, prediction: Any) -> list[Pair]:
    """Return the pairs that the metrics of citations ask an oracle about."""
    return citations.pairs(fields.response_of(prediction), references_of(prediction))


@dataclass(frozen=True)
class Cost:
    """One kind of cost of one question; lower is better.

    Args:
        name: Its name in tables.
        definition: What is counted, with its unit.
        function: Takes a row of a run and returns the cost; None if it is unknown.
    """

    name: str
    definition: str
    function: Callable[[Mapping[str, Any]], float | None]


UNKNOWN_COSTS = "costs"
"""Among the `unknown` fields of a row: another system's predictions do not say what they cost."""


def costs_known(row: Mapping[str, Any]) -> bool:
    """Return whether a row says what its answer cost."""
    return UNKNOWN_COSTS not in (row.get("unknown") or [])


def _cost(name: str, definition: str, count: Callable[[Mapping[str, Any]], float]) -> Cost:
    return Cost(name, definition, lambda row: float(count(row)) if costs_known(row) else None)


def tokens_of(row: Mapping[str, Any]) -> float:
    """Return the prompt and completion tokens of a row, those that the cache saved included."""
    return float(asked(row, "tokens"))


COSTS = {
    "lm_calls": _cost("lm_calls", "LM calls the program asked for.", lambda row: row["calls"]),
    "paid_calls": _cost("paid_calls", "LM calls that the cache did not answer.", lambda row: paid(row)["calls"]),
    "tokens": _cost("tokens", "Prompt and completion tokens of all LM calls, cache hits included.", tokens_of),
    "paid_tokens": _cost(
        "paid_tokens",
        "Prompt and completion tokens of the LM calls that the cache did not answer.",
        lambda row: paid(row)["tokens"],
    ),
    "rounds": _cost("rounds", "LM calls in sequence: parallel calls count once.", lambda row: row["rounds"]),
    "seconds": _cost(
        "seconds", "Wall-clock seconds of one question, with others in parallel.", lambda row: row["seconds"]
    ),
}
