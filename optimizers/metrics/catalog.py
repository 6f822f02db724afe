"""Every metric by name: its definition, its function and its source.

A name carries its definition in brackets where published definitions differ, because they give different numbers.
`METRICS` score an example and a prediction; `ORACLE_METRICS` also need an entailment oracle
(`optimizers.metrics.groundedness`). Retrieval metrics are over passages and over all hops in reading order, unless the
name says otherwise.
"""

from collections.abc import Iterable

from optimizers.metrics import answer, citations, keyfact_scores, retrieval, revisions, scoring, verification
from optimizers.metrics.answer import HOTPOT, MUSIQUE, SQUAD, TWO_WIKI, Definition
from optimizers.metrics.judges import answer_judge
from optimizers.metrics.judges.answer_judge import RUNS, VOTES
from optimizers.metrics.metric import Metric, OracleMetric
from signatures.common.errors import unknown

_ALCE = "https://github.com/princeton-nlp/ALCE/blob/3fdc2ed/eval.py"
_COV_RAG = "https://arxiv.org/abs/2410.05801"
_CREDIBLE = 'https://hotpotqa.github.io (its questions; "How Credible Is an Answer From Retrieval-Augmented LLMs?")'
_FLASHRAG = "https://github.com/RUC-NLPIR/FlashRAG/blob/1ee5249/flashrag/evaluator/metrics.py"
_GENGROUND = "https://arxiv.org/abs/2406.14891"
_HIPPO = "https://github.com/OSU-NLP-Group/HippoRAG"

_RECALL = "Share of the gold passages among the first {} different passages read; undefined without gold ids."
_RECALL_ALL = "Share of the gold passages among all passages read in the run; undefined without gold ids."
_ALL_GOLD = "1 when all gold passages are among the first {} different passages read; undefined without gold ids."
_TITLE = (
    "Share of the gold articles among the first {} different articles read, by whichever of their passages. Gold "
    "articles are the question's gold_titles, else read off ids that our converters made; undefined for other ids."
)
_IN_CONTEXT = "1 when a normalised gold is part of one of the first {} passages read; undefined for yes/no golds."
_HOP_MATCH = (
    "among the hops whose sub-question is a gold one by its words; exact match decides; undefined without such a hop."
)


def _tokens(name: str, definition: Definition) -> Metric:
    """Return F1, precision or recall of tokens (as the first word of `name` says) as one evaluator defines it."""
    part = name.partition("[")[0]
    rule = "a wrong yes, no or noanswer scores 0" if definition.yes_no_rule else "no rule for yes and no"
    text = f"Token {part} after normalising, best over the golds; {rule}; both sides empty: {definition.both_empty:g}."
    return Metric(name, text, scoring.token_overlap(part, definition), definition.source)


_METRICS = (
    Metric(
        "em",
        "1 when the answer equals a gold after normalising (the same in all evaluators).",
        scoring.on_answer(answer.exact_match),
        HOTPOT.source,
    ),
    _tokens("f1[hotpot]", HOTPOT),
    _tokens("f1[2wiki]", TWO_WIKI),
    _tokens("f1[squad]", SQUAD),
    _tokens("f1[musique]", MUSIQUE),
    _tokens("precision[hotpot]", HOTPOT),
    _tokens("precision[2wiki]", TWO_WIKI),
    _tokens("precision[squad]", SQUAD),
    _tokens("precision[musique]", MUSIQUE),
    _tokens("recall[hotpot]", HOTPOT),
    _tokens("recall[2wiki]", TWO_WIKI),
    _tokens("recall[squad]", SQUAD),
    _tokens("recall[musique]", MUSIQUE),
    Metric(
        "acc[substring]",
        "1 when a normalised gold is part of the normalised answer. A gold that normalises to nothing is scored by "
        "exact match, a yes/no gold by the verdict the answer begins with.",
        scoring.on_answer(answer.cover_substring),
        _FLASHRAG,
    ),
    Metric(
        "acc[token]",
        "1 when a gold's tokens (lower case, articles and marks included) stand side by side in the answer. A gold "
        "that normalises to nothing is scored by exact match, a yes/no gold by the verdict the answer begins with.",
        scoring.on_answer(answer.cover_tokens),
        "https://github.com/facebookresearch/DPR/blob/main/dpr/data/qa_validation.py",
    ),
    Metric(
        "acc[labels]",
        "1 when a gold is part of the response, case and ASCII punctuation aside, articles kept (CoV-RAG's accuracy); "
        "guards as in acc[substring].",
        scoring.on_response(answer.cover_labels),
        _COV_RAG,
    ),
    Metric(
        "acc[raw]",
        "1 when a gold stands in the response letter by letter (WebGLM); guards as in acc[substring].",
        scoring.on_response(answer.cover_raw),
        "https://github.com/THUDM/WebGLM",
    ),
    Metric(
        "acc[yes_no]",
        "1 when the verdict that the answer begins with is the gold's (StrategyQA); no verdict is wrong and counted as "
        "unparsed; undefined where no gold is yes or no.",
        scoring.verdict,
        "https://github.com/kojima-takeshi188/zero_shot_cot/blob/5ef330f/utils.py",
    ),
    Metric(
        "acc[judge]",
        "1 when the judge LM says that the answer implies one of the golds, all shown in one prompt; the mean of "
        f"{RUNS} runs where the judge samples, one run at temperature 0 or with log-probabilities (P(yes) of 0.5 and "
        "above). A verdict that cannot be read is wrong and counted as unparsed.",
        answer_judge.answer_match,
        _GENGROUND,
        judged=True,
    ),
    Metric(
        "hallucination[halluqa]",
        "1 when the judge LM says that the response hallucinates, given the correct answers: yes is wrong. The "
        f"majority of {VOTES} runs where the judge samples, one run at temperature 0 or with log-probabilities. A "
        "verdict that cannot be read, a tie and an empty response count as wrong (1); the first is counted as "
        "unparsed. The accuracy that papers print is 1 minus the mean.",
        answer_judge.hallucination,
        "https://github.com/OpenMOSS/HalluQA",
        higher_is_better=False,
        judged=True,
    ),
    Metric(
        "abstention",
        "1 when the program declined or gave no answer; every score counts that as a wrong answer.",
        scoring.abstention,
        _GENGROUND,
        higher_is_better=False,
    ),
    Metric("recall@2", _RECALL.format(2), scoring.on_read_ids(retrieval.recall_at, 2), _HIPPO),
    Metric("recall@5", _RECALL.format(5), scoring.on_read_ids(retrieval.recall_at, 5), _HIPPO),
    Metric("recall@10", _RECALL.format(10), scoring.on_read_ids(retrieval.recall_at, 10), _HIPPO),
    Metric("recall@20", _RECALL.format(20), scoring.on_read_ids(retrieval.recall_at, 20), _HIPPO),
    Metric("recall[all]", _RECALL_ALL, scoring.on_read_ids(retrieval.recall_at), _HIPPO),
    Metric("all_gold@2", _ALL_GOLD.format(2), scoring.on_read_ids(retrieval.all_gold_at, 2), _HIPPO),
    Metric("all_gold@5", _ALL_GOLD.format(5), scoring.on_read_ids(retrieval.all_gold_at, 5), _HIPPO),
    Metric("all_gold@10", _ALL_GOLD.format(10), scoring.on_read_ids(retrieval.all_gold_at, 10), _HIPPO),
    Metric("all_gold@20", _ALL_GOLD.format(20), scoring.on_read_ids(retrieval.all_gold_at, 20), _HIPPO),
    Metric(
        "mrr@10",
        "1 / rank of the first gold passage among the first 10 different passages read, 0 without one; undefined "
        "without gold ids.",
        scoring.on_read_ids(retrieval.reciprocal_rank, 10),
        _HIPPO,
    ),
    Metric("recall[title]@5", _TITLE.format(5), scoring.title_recall(5), _HIPPO),
    Metric("recall[title]@10", _TITLE.format(10), scoring.title_recall(10), _HIPPO),
    Metric(
        "recall[annotator]@10",
        "Share of an annotator's gold passages among the first 10 different passages read, of the annotator whom "
        "this suits best (StrategyQA); recall of the gold ids where a question has one set; undefined without any.",
        scoring.annotator_recall(10),
        "https://github.com/eladsegal/strategyqa",
    ),
    Metric(
        "recall[hops]@5",
        "Share of the gold passages among the first 5 passages of every hop, all hops together; undefined without "
        "gold ids.",
        scoring.hop_recall(5),
        "https://github.com/StonyBrookNLP/ircot",
    ),
    Metric(
        "hop_hit@5",
        "Share of the hops with a gold passage among their first 5; hops that read nothing are left out; undefined "
        "without gold ids or such a hop.",
        scoring.hop_hit(5),
        _HIPPO,
    ),
    Metric("answer_in_context@5", _IN_CONTEXT.format(5), scoring.answer_in_context(5), _FLASHRAG),
    Metric("answer_in_context@10", _IN_CONTEXT.format(10), scoring.answer_in_context(10), _FLASHRAG),
    Metric(
        "judgement[cov]",
        "1 when the first verification calls the first response true and it holds a gold answer, or does not and it "
        "does not; an unreadable verification is wrong.",
        verification.judgement,
        _COV_RAG,
    ),
    Metric("form[cov]", "Share of the verifications that could be read.", verification.form, _COV_RAG),
    Metric(
        "references[before]",
        "1 when the first references hold a gold answer (normalised substring); undefined for yes and no.",
        verification.first_references,
        _COV_RAG,
    ),
    Metric(
        "references[after]",
        "1 when the last references hold a gold answer (normalised substring); undefined for yes and no.",
        verification.last_references,
        _COV_RAG,
    ),
    Metric(
        "revision[success]",
        f"Share of drafts that were right and stayed so, or were corrected, {_HOP_MATCH}",
        revisions.share("direct", "revised"),
        _GENGROUND,
    ),
    Metric(
        "revision[failure]",
        f"Share of drafts that were wrong and stayed so, {_HOP_MATCH}",
        revisions.share("failure"),
        _GENGROUND,
        higher_is_better=False,
    ),
    Metric(
        "revision[error]",
        f"Share of drafts that were right and were spoiled, {_HOP_MATCH}",
        revisions.share("error"),
        _GENGROUND,
        higher_is_better=False,
    ),
    Metric(
        "citation_precision",
        "Share of the passages cited that are gold, as sets of ids; a mark beyond the references is cited and wrong; 0 "
        "when nothing is cited; undefined without gold ids.",
        scoring.on_cited_ids(citations.precision),
        _CREDIBLE,
    ),
    Metric(
        "citation_recall",
        "Share of the gold passages that are cited, as sets of ids; undefined without gold ids.",
        scoring.on_cited_ids(citations.recall),
        _CREDIBLE,
    ),
    Metric("uncited", "1 when the response cites nothing at all.", scoring.uncited, _CREDIBLE, higher_is_better=False),
    Metric(
        "support_f1",
        "F1 of cited against gold passages as sets; 0 when nothing is cited; undefined without gold ids.",
        scoring.support_f1,
        "https://github.com/hotpotqa/hotpot/blob/3635853/hotpot_evaluate_v1.py (there on sentences)",
    ),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}

ORACLE_METRICS: dict[str, OracleMetric] = {
    "keyfacts_recall": OracleMetric(
        "Share of the key facts that the whole response, marks removed, entails; undefined without key facts.",
        scoring.key_fact_pairs,
        scoring.on_key_facts(keyfact_scores.recall),
        _CREDIBLE,
    ),
    "keyfacts_precision": OracleMetric(
        "Share of the response's sentences that each entail some key fact; 0 without sentences; undefined without key "
        "facts.",
        scoring.key_fact_pairs,
        scoring.on_key_facts(keyfact_scores.precision),
        _CREDIBLE,
    ),
    "keyfacts_f1": OracleMetric(
        "Harmonic mean of the question's own keyfacts_recall and keyfacts_precision; tables that print the harmonic "
        "mean of the two means show another number.",
        scoring.key_fact_pairs,
        scoring.on_key_facts(keyfact_scores.f1),
        _CREDIBLE,
    ),
    "sc[cited]": OracleMetric(
        "Share of the cited sentences that their passages, joined in order of their numbers, entail; undefined when no "
        "sentence is cited.",
        scoring.citation_pairs,
        scoring.on_citations(citations.self_consistency),
        _CREDIBLE,
    ),
    "sc[strict]": OracleMetric(
        "Share of all sentences that are cited, without a mark beyond the references, and entailed by what they cite; "
        "0 without sentences.",
        scoring.citation_pairs,
        scoring.on_citations(citations.strict_self_consistency),
        _CREDIBLE,
    ),
    "citation_recall[alce]": OracleMetric(
        "Share of all sentences that their first three citations entail together; 0 for one uncited or with a mark "
        "beyond the references; undefined without sentences.",
        scoring.citation_pairs,
        scoring.on_citations(citations.alce_recall),
        _ALCE,
    ),
    "citation_precision[alce]": OracleMetric(
        "Share of the citations of entailed sentences that the sentence needs, of all citations (three a sentence, "
        "none of a sentence with a mark beyond the references); undefined without sentences.",
        scoring.citation_pairs,
        scoring.on_citations(citations.alce_precision),
        _ALCE,
    ),
}


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        UserError: `METRICS` has no such name; the message lists the names.
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def get_metrics(names: Iterable[str]) -> list[Metric]:
    """Return the metrics of those names in that order, repeated names once.

    Raises:
        UserError: A name is not in `METRICS`.
    """
    return [get_metric(name) for name in dict.fromkeys(names)]
