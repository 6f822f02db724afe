"""Citation and key-facts metrics by name: those that need no oracle, and those that an oracle makes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optimizers.metrics import citations, keyfacts
from optimizers.metrics.citations import Entails, cited_ids, references_of
from optimizers.metrics.entailment.oracle import EntailmentOracle, Pair, describe, judge
from optimizers.metrics.fields import gold_ids_of, response_of
from optimizers.metrics.metric import Metric
from signatures.common.errors import unknown

_CREDIBLE = 'https://hotpotqa.github.io (its questions; "How Credible Is an Answer From Retrieval-Augmented LLMs?")'
_ALCE = "https://github.com/princeton-nlp/ALCE/blob/3fdc2ed/eval.py"

CITATION_METRICS: dict[str, Metric] = {
    "citation_precision": Metric(
        "citation_precision",
        "Share of the passages cited that are gold, as sets of ids; a mark beyond the references is cited and wrong; 0 "
        "when nothing is cited; undefined without gold ids.",
        lambda example, prediction: citations.precision(cited_ids(prediction), gold_ids_of(example)),
        _CREDIBLE,
    ),
    "citation_recall": Metric(
        "citation_recall",
        "Share of the gold passages that are cited, as sets of ids; undefined without gold ids.",
        lambda example, prediction: citations.recall(cited_ids(prediction), gold_ids_of(example)),
        _CREDIBLE,
    ),
    "uncited": Metric(
        "uncited",
        "1 when the response cites nothing at all.",
        lambda example, prediction: citations.uncited(prediction),
        _CREDIBLE,
        higher_is_better=False,
    ),
}


def key_facts_of(example: Any) -> list[str]:
    """Return the key facts of an example; [] where it has none."""
    return getattr(example, "key_facts", None) or []


def _on_facts(function: Callable[..., float | None]) -> Callable[[Any, Any, Entails], float | None]:
    return lambda example, prediction, entails: function(response_of(prediction), key_facts_of(example), entails)


def _on_marks(function: Callable[..., float | None]) -> Callable[[Any, Any, Entails], float | None]:
    return lambda example, prediction, entails: function(response_of(prediction), references_of(prediction), entails)


def _facts_pairs(example: Any, prediction: Any) -> list[Pair]:
    return keyfacts.pairs(response_of(prediction), key_facts_of(example))


def _marks_pairs(example: Any, prediction: Any) -> list[Pair]:
    return citations.pairs(response_of(prediction), references_of(prediction))


# Name -> what an oracle is asked, what its verdicts make of it, the definition, its source.
_Made = tuple[Callable[[Any, Any], list[Pair]], Callable[[Any, Any, Entails], float | None], str, str]
_MADE: Mapping[str, _Made] = {
    "keyfacts_recall": (
        _facts_pairs,
        _on_facts(keyfacts.recall),
        "Share of the key facts that the whole response, marks removed, entails; undefined without key facts.",
        _CREDIBLE,
    ),
    "keyfacts_precision": (
        _facts_pairs,
        _on_facts(keyfacts.precision),
        "Share of the response's sentences that each entail some key fact; 0 without sentences; undefined without key "
        "facts.",
        _CREDIBLE,
    ),
    "keyfacts_f1": (
        _facts_pairs,
        _on_facts(keyfacts.f1),
        "Harmonic mean of the question's own keyfacts_recall and keyfacts_precision; tables that print the harmonic "
        "mean of the two means show another number.",
        _CREDIBLE,
    ),
    "sc[cited]": (
        _marks_pairs,
        _on_marks(citations.self_consistency),
        "Share of the cited sentences that their passages, joined in order of their numbers, entail; undefined when no "
        "sentence is cited.",
        _CREDIBLE,
    ),
    "sc[strict]": (
        _marks_pairs,
        _on_marks(citations.strict_self_consistency),
        "Share of all sentences that are cited, without a mark beyond the references, and entailed by what they cite; "
        "0 without sentences.",
        _CREDIBLE,
    ),
    "citation_recall[alce]": (
        _marks_pairs,
        _on_marks(citations.alce_recall),
        "Share of all sentences that their first three citations entail together; 0 for one uncited or with a mark "
        "beyond the references; undefined without sentences.",
        _ALCE,
    ),
    "citation_precision[alce]": (
        _marks_pairs,
        _on_marks(citations.alce_precision),
        "Share of the citations of entailed sentences that the sentence needs, of all citations (three a sentence, "
        "none of a sentence with a mark beyond the references); undefined without sentences.",
        _ALCE,
    ),
}
ORACLE_METRICS = tuple(_MADE)
_BY = "Entailment by "


def _metric(name: str, oracle: EntailmentOracle) -> Metric:
    asked, function, definition, source = _MADE[name]

    def score(example: Any, prediction: Any) -> float | None:
        return function(example, prediction, judge(oracle, asked(example, prediction)))

    # The fingerprint keeps runs apart that were scored by other weights of the same name.
    return Metric(name, f"{definition} Oracle {oracle.fingerprint}. {_BY}{describe(oracle)}.", score, source)


def oracles_of(definitions: Mapping[str, str]) -> list[str]:
    """Return which metrics of a run an oracle made, with its measured agreement; [] where none did.

    Args:
        definitions: Metric name -> definition, as a run's description holds them.
    """
    made: dict[str, list[str]] = {}
    for name, definition in definitions.items():
        _, by, oracle = definition.partition(_BY)
        if by:
            made.setdefault(oracle.removesuffix("."), []).append(name)
    return [f"{', '.join(names)} by {oracle}." for oracle, names in made.items()]


def with_oracle(oracle: EntailmentOracle, names: Sequence[str] = ORACLE_METRICS) -> list[Metric]:
    """Return the metrics that an oracle makes, its measured agreement with people in their definitions.

    Each scores one question with one call of the oracle; `score_all` scores many with one call in all.

    Args:
        oracle: What judges.
        names: Among `ORACLE_METRICS`.

    Raises:
        UserError: A name is none of them.
    """
    for name in names:
        if name not in _MADE:
            raise unknown("metric of an entailment oracle", name, ORACLE_METRICS)
    return [_metric(name, oracle) for name in dict.fromkeys(names)]


def score_all(
    rows: Sequence[tuple[Any, Any]], oracle: EntailmentOracle, names: Sequence[str] = ORACLE_METRICS
) -> dict[str, list[float | None]]:
    """Return the values of many (example, prediction) with one call of the oracle, each distinct pair judged once.

    Args:
        rows: Examples with key facts, where there are some, and predictions.
        oracle: What judges.
        names: Among `ORACLE_METRICS`.

    Returns:
        For each name one value per row, None where it is undefined.
    """
    asked = {_MADE[name][0] for name in names}
    pairs = [pair for one in asked for example, prediction in rows for pair in one(example, prediction)]
    entails = judge(oracle, pairs)
    return {name: [_MADE[name][1](example, prediction, entails) for example, prediction in rows] for name in names}
