"""Definitions of the metrics of evidence: supporting facts, and the passages read against response and key facts."""

from collections.abc import Callable
from typing import Any, Literal

from optimizers.metrics import scoring
from optimizers.metrics.entailment.oracle import Entails
from optimizers.metrics.evidence import context, supporting_facts
from optimizers.metrics.fields import key_facts_of, passages_of, response_of
from optimizers.metrics.metric import Metric, OracleMetric
from optimizers.metrics.needs import Need

_HOTPOT = "https://github.com/hotpotqa/hotpot/blob/3635853/hotpot_evaluate_v1.py"
_RAGCHECKER = "https://github.com/amazon-science/RAGChecker/blob/11c4e21/ragchecker/computation.py"
_RAGAS = "https://github.com/explodinggradients/ragas/blob/3e28e9d/src/ragas/metrics/_context_precision.py"

_PREDICTED = (
    "Predicted are the facts of an official prediction file, else the sentences that the evidence quoted by the hops "
    "touches (none: 0)"
)
_Part = Literal["em", "f1", "precision", "recall"]
_OF_FACTS: dict[_Part, str] = {
    "em": "1 when the predicted supporting facts are exactly the gold sentences.",
    "f1": "F1 of predicted supporting facts and gold sentences as sets.",
    "precision": "Share of the predicted supporting facts that are gold sentences; 0 when none is predicted.",
    "recall": "Share of the gold sentences that are predicted supporting facts.",
}
_OF_BOTH: dict[_Part, str] = {
    "em": "em times sp_em: the answer and the supporting facts are both exactly right.",
    "f1": "Harmonic mean of joint_precision and joint_recall.",
    "precision": "precision[hotpot] times sp_precision.",
    "recall": "recall[hotpot] times sp_recall.",
}


def _part(function: Callable[[Any, Any], supporting_facts.Support | None], part: _Part) -> scoring.Score:
    def score(example: Any, prediction: Any) -> float | None:
        scores = function(example, prediction)
        return None if scores is None else float(getattr(scores, part))

    return score


EVIDENCE_METRICS = (
    *(
        Metric(
            f"sp_{part}",
            f"{text} {_PREDICTED}; undefined without gold sentences.",
            _part(supporting_facts.support, part),
            _HOTPOT,
            needs=(Need.GOLD_SENTENCES, Need.FACTS, Need.QUOTED_TEXTS),
        )
        for part, text in _OF_FACTS.items()
    ),
    *(
        Metric(
            f"joint_{part}",
            f"{text} {_PREDICTED}; undefined without gold sentences or gold answers.",
            _part(supporting_facts.joint, part),
            _HOTPOT,
            needs=(Need.ANSWERS, Need.GOLD_SENTENCES, Need.FACTS, Need.QUOTED_TEXTS),
        )
        for part, text in _OF_BOTH.items()
    ),
)


def _on_context(function: Callable[..., float | None]) -> scoring.OracleScore:
    return lambda example, prediction, entails: function(passages_of(prediction), key_facts_of(example), entails)


def _on_response(function: Callable[..., float | None]) -> scoring.OracleScore:
    return lambda example, prediction, entails: function(response_of(prediction), passages_of(prediction), entails)


def _noise(*, relevant: bool) -> scoring.OracleScore:
    def score(example: Any, prediction: Any, entails: Entails) -> float | None:
        said, read, facts = response_of(prediction), passages_of(prediction), key_facts_of(example)
        return context.noise_sensitivity(said, read, facts, entails, relevant=relevant)

    return score


def _noise_pairs(example: Any, prediction: Any) -> list[tuple[str, str]]:
    return context.noise_pairs(response_of(prediction), passages_of(prediction), key_facts_of(example))


def _fact_pairs(example: Any, prediction: Any) -> list[tuple[str, str]]:
    return context.fact_pairs(passages_of(prediction), key_facts_of(example))


_READ = (Need.TEXTS, Need.ORACLE)
_WITH_FACTS = (Need.KEY_FACTS, *_READ)

EVIDENCE_ORACLE_METRICS = {
    "faithfulness[any]": OracleMetric(
        "Share of the response's sentences that some single passage read entails (RAGChecker's faithfulness, over "
        "sentences instead of extracted claims); 0 without sentences or passages.",
        lambda example, prediction: context.response_pairs(response_of(prediction), passages_of(prediction)),
        _on_response(context.faithfulness),
        _RAGCHECKER,
        _READ,
    ),
    "faithfulness[all]": OracleMetric(
        "Share of the response's sentences that all passages read, joined, entail (ragas' faithfulness, over sentences "
        "instead of extracted statements); 0 without sentences or passages.",
        lambda example, prediction: context.joined_pairs(response_of(prediction), passages_of(prediction)),
        _on_response(context.joined_faithfulness),
        "https://github.com/explodinggradients/ragas/blob/3e28e9d/src/ragas/metrics/_faithfulness.py",
        _READ,
    ),
    "claim_recall": OracleMetric(
        "Share of the key facts that some single passage read entails (RAGChecker's claim recall of the context); 0 "
        "when nothing was read; undefined without key facts.",
        _fact_pairs,
        _on_context(context.claim_recall),
        _RAGCHECKER,
        _WITH_FACTS,
    ),
    "context_precision[ragchecker]": OracleMetric(
        "Share of the passages read that entail some key fact; 0 when nothing was read; undefined without key facts.",
        _fact_pairs,
        _on_context(context.context_precision),
        _RAGCHECKER,
        _WITH_FACTS,
    ),
    "context_precision[ragas]": OracleMetric(
        "Mean of the precision at the rank of each passage read that entails some key fact, in reading order; 0 "
        "without one; undefined without key facts. In ragas an LM says which passages were useful.",
        _fact_pairs,
        _on_context(context.ranked_context_precision),
        _RAGAS,
        _WITH_FACTS,
    ),
    "noise_sensitivity[relevant]": OracleMetric(
        "Share of the response's sentences that the key facts, joined, do not entail, but a passage that entails a key "
        "fact does; 0 without sentences; undefined without key facts.",
        _noise_pairs,
        _noise(relevant=True),
        _RAGCHECKER,
        _WITH_FACTS,
        higher_is_better=False,
    ),
    "noise_sensitivity[irrelevant]": OracleMetric(
        "Share of the response's sentences that the key facts, joined, do not entail, but only passages without a key "
        "fact do; 0 without sentences; undefined without key facts.",
        _noise_pairs,
        _noise(relevant=False),
        _RAGCHECKER,
        _WITH_FACTS,
        higher_is_better=False,
    ),
}
