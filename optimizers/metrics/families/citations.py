"""Definitions of the metrics of key facts and citations: against gold, and by the verdicts of an entailment oracle."""

from collections.abc import Callable

from optimizers.metrics import citations, keyfact_scores, scoring
from optimizers.metrics.metric import Metric, Need, OracleMetric

_ALCE = "https://github.com/princeton-nlp/ALCE/blob/3fdc2ed/eval.py"
_CREDIBLE = '"How Credible Is an Answer From Retrieval-Augmented LLMs?", section 4'

_MARKS = "A mark is a bracket of numbers: [1], [1, 2], [1-3], [^1], [[1]], also full-width."

_GOLD = (Need.GOLD_IDS, Need.CITATIONS)


def _of_key_facts(score: Callable[..., float | None], definition: str) -> OracleMetric:
    needs = (Need.KEY_FACTS, Need.ORACLE)
    return OracleMetric(definition, scoring.key_fact_pairs, scoring.on_key_facts(score), _CREDIBLE, needs)


def _of_citations(score: Callable[..., float | None], definition: str, source: str = _CREDIBLE) -> OracleMetric:
    needs = (Need.CITED_TEXTS, Need.ORACLE)
    return OracleMetric(definition, scoring.citation_pairs, scoring.on_citations(score), source, needs)


KEY_FACT_METRICS = {
    "keyfacts_recall": _of_key_facts(
        keyfact_scores.recall,
        "Share of the key facts that the whole response, marks removed, entails; undefined without key facts.",
    ),
    "keyfacts_precision": _of_key_facts(
        keyfact_scores.precision,
        "Share of the response's sentences that each entail some key fact; 0 without sentences; undefined without key "
        "facts.",
    ),
    "keyfacts_f1": _of_key_facts(
        keyfact_scores.f1,
        "Harmonic mean of the question's own keyfacts_recall and keyfacts_precision; tables that print the harmonic "
        "mean of the two means show another number.",
    ),
}

CITATION_METRICS = (
    Metric(
        "citation_precision",
        "Share of the passages cited that are gold, as sets of ids; a mark beyond the references is cited and wrong; 0 "
        f"when nothing is cited; undefined without gold ids. {_MARKS}",
        scoring.on_cited_ids(citations.precision),
        _CREDIBLE,
        needs=_GOLD,
    ),
    Metric(
        "citation_recall",
        f"Share of the gold passages that are cited, as sets of ids; undefined without gold ids. {_MARKS}",
        scoring.on_cited_ids(citations.recall),
        _CREDIBLE,
        needs=_GOLD,
    ),
    Metric(
        "uncited",
        f"1 when the response cites nothing at all. {_MARKS}",
        citations.uncited,
        _CREDIBLE,
        higher_is_better=False,
        needs=(Need.CITATIONS,),
    ),
    Metric(
        "unread_marks",
        "Share of the response's citation marks that cannot be read, such as [Passage 2], and so cite nothing; 0 "
        "without marks.",
        citations.unread_share,
        _CREDIBLE,
        higher_is_better=False,
        needs=(Need.CITATIONS,),
    ),
    Metric(
        "support_f1",
        "F1 of cited against gold passages as sets; 0 when nothing is cited; undefined without gold ids.",
        scoring.support_f1,
        "https://github.com/hotpotqa/hotpot/blob/3635853/hotpot_evaluate_v1.py (there on sentences)",
        needs=_GOLD,
    ),
    Metric(
        "support_f1[musique]",
        "MuSiQue's support F1: of cited against gold passages as sets, as support_f1; questions marked as not "
        "answerable are left out; undefined without gold ids.",
        scoring.answerable_support_f1,
        "https://github.com/StonyBrookNLP/musique/blob/922ac98/evaluate_v1.0.py",
        needs=_GOLD,
    ),
)

CITATION_ORACLE_METRICS = {
    "sc[cited]": _of_citations(
        citations.self_consistency,
        "Share of the cited sentences that their passages, joined in order of their numbers, entail; undefined when no "
        "sentence is cited.",
    ),
    "sc[strict]": _of_citations(
        citations.strict_self_consistency,
        "Share of all sentences that are cited, without a mark beyond the references, and entailed by what they cite; "
        "0 without sentences.",
    ),
    "citation_recall[alce]": _of_citations(
        citations.alce_recall,
        "Share of all sentences that their first three citations entail together; 0 for one uncited or with a mark "
        "beyond the references; undefined without sentences.",
        _ALCE,
    ),
    "citation_precision[alce]": _of_citations(
        citations.alce_precision,
        "Share of the citations of entailed sentences that the sentence needs, of all citations (three a sentence, "
        "none of a sentence with a mark beyond the references); undefined without sentences.",
        _ALCE,
    ),
}
