"""Definitions of the metrics of key facts, by the verdicts of an entailment oracle."""

from optimizers.metrics import keyfact_scores, scoring
from optimizers.metrics.metric import Need, OracleMetric

_CREDIBLE = '"How Credible Is an Answer From Retrieval-Augmented LLMs?", section 4'

_NEEDS = (Need.KEY_FACTS, Need.ORACLE)

KEY_FACT_METRICS = {
    "keyfacts_recall": OracleMetric(
        "Share of the key facts that the whole response, marks removed, entails; undefined without key facts.",
        scoring.key_fact_pairs,
        scoring.on_key_facts(keyfact_scores.recall),
        _CREDIBLE,
        _NEEDS,
    ),
    "keyfacts_precision": OracleMetric(
        "Share of the response's sentences that each entail some key fact; 0 without sentences; undefined without key "
        "facts.",
        scoring.key_fact_pairs,
        scoring.on_key_facts(keyfact_scores.precision),
        _CREDIBLE,
        _NEEDS,
    ),
    "keyfacts_f1": OracleMetric(
        "Harmonic mean of the question's own keyfacts_recall and keyfacts_precision; tables that print the harmonic "
        "mean of the two means show another number.",
        scoring.key_fact_pairs,
        scoring.on_key_facts(keyfact_scores.f1),
        _CREDIBLE,
        _NEEDS,
    ),
}
