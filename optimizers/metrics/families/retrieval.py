"""Definitions of the metrics of the passages read: over all hops in reading order, unless the name says otherwise."""

from optimizers.metrics import retrieval, scoring
from optimizers.metrics.metric import Metric

_FLASHRAG = "https://github.com/RUC-NLPIR/FlashRAG/blob/1ee5249/flashrag/evaluator/metrics.py"
_HIPPO = "https://github.com/OSU-NLP-Group/HippoRAG"

_RECALL = "Share of the gold passages among the first {} different passages read; undefined without gold ids."
_RECALL_ALL = "Share of the gold passages among all passages read in the run; undefined without gold ids."
_ALL_GOLD = "1 when all gold passages are among the first {} different passages read; undefined without gold ids."
_TITLE = (
    "Share of the gold articles among the first {} different articles read, by whichever of their passages. Gold "
    "articles are the question's gold_titles, else read off ids that our converters made; undefined for other ids."
)
_IN_CONTEXT = "1 when a normalised gold is part of one of the first {} passages read; undefined for yes/no golds."

RETRIEVAL_METRICS = (
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
)
