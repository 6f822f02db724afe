"""Definitions of the metrics of the passages read: over all hops in reading order, unless the name says otherwise.

Most have a cutoff: `AT_K` lists them, and `at_k` returns one for any k, such as `passage_recall@7`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from optimizers.metrics import retrieval, scoring
from optimizers.metrics.metric import Metric, Need
from optimizers.metrics.names import LARGEST_K, split_at_k
from signatures.common.errors import UserError

_FLASHRAG = "https://github.com/RUC-NLPIR/FlashRAG/blob/1ee5249/flashrag/evaluator/metrics.py"
_HIPPO = "https://github.com/OSU-NLP-Group/HippoRAG"
_OWN = "defined by verihop"
_TREC = "https://github.com/usnistgov/trec_eval"

_BY_ID = (Need.GOLD_IDS, Need.PASSAGES)


@dataclass(frozen=True)
class AtK:
    """A metric with a cutoff.

    Args:
        definition: What is scored, with {} in the place of k.
        score: Takes k and returns the function of a `Metric`.
        source: URL of the published definition.
        cutoffs: Those listed in the catalog.
        needs: As in `Metric`.
    """

    definition: str
    score: Callable[[int], scoring.Score]
    source: str
    cutoffs: tuple[int, ...]
    needs: tuple[Need, ...] = _BY_ID


AT_K = {
    "passage_recall": AtK(
        "Share of the gold passages among the first {} different passages read; undefined without gold ids.",
        lambda k: scoring.on_read_ids(retrieval.recall_at, k),
        _HIPPO,
        (2, 5, 10, 20),
    ),
    "all_gold": AtK(
        "1 when all gold passages are among the first {} different passages read; undefined without gold ids.",
        lambda k: scoring.on_read_ids(retrieval.all_gold_at, k),
        _HIPPO,
        (2, 5, 10, 20),
    ),
    "hit": AtK(
        "1 when a gold passage is among the first {} different passages read; undefined without gold ids.",
        lambda k: scoring.on_read_ids(retrieval.hit_at, k),
        _TREC,
        (5,),
    ),
    "mrr": AtK(
        "1 / rank of the first gold passage among the first {} different passages read, 0 without one; undefined "
        "without gold ids.",
        lambda k: scoring.on_read_ids(retrieval.reciprocal_rank, k),
        _TREC,
        (10,),
    ),
    "ndcg": AtK(
        "Gain of the gold passages among the first {} different passages read, each 1 / log2(rank + 1), over that of "
        "the best ranking; undefined without gold ids.",
        lambda k: scoring.on_read_ids(retrieval.ndcg_at, k),
        _TREC,
        (10,),
    ),
    "map": AtK(
        "Mean over the gold passages of the precision at their rank, 0 for those not among the first {} different "
        "passages read (average precision; its mean is MAP); undefined without gold ids.",
        lambda k: scoring.on_read_ids(retrieval.average_precision_at, k),
        _TREC,
        (10,),
    ),
    "passage_recall[title]": AtK(
        "Share of the gold articles among the first {} different articles read, by whichever of their passages. Gold "
        "articles are the question's gold_titles, else read off ids that our converters made; undefined for other ids.",
        scoring.title_recall,
        _HIPPO,
        (5, 10),
        (Need.GOLD_ARTICLES, Need.TITLES),
    ),
    "passage_recall[annotator]": AtK(
        "Share of an annotator's gold passages among the first {} different passages read, of the annotator whom "
        "this suits best (StrategyQA); recall of the gold ids where a question has one set; undefined without any.",
        scoring.annotator_recall,
        "https://github.com/eladsegal/strategyqa",
        (10,),
    ),
    "passage_recall[hops]": AtK(
        "Share of the gold passages among the first {} passages of every hop, all hops together; undefined without "
        "gold ids.",
        scoring.hop_recall,
        "https://github.com/StonyBrookNLP/ircot",
        (5,),
        (Need.GOLD_IDS, Need.HOPS),
    ),
    "hop_hit": AtK(
        "Share of the hops with a gold passage among their first {}; hops that read nothing are left out; undefined "
        "without gold ids or such a hop.",
        scoring.hop_hit,
        _OWN,
        (5,),
        (Need.GOLD_IDS, Need.HOPS),
    ),
    "answer_in_context": AtK(
        "1 when a normalised gold is part of one of the first {} passages read; undefined for yes/no golds.",
        scoring.answer_in_context,
        _FLASHRAG,
        (5, 10),
        (Need.ANSWERS, Need.TEXTS),
    ),
}


def _at(base: str, k: int) -> Metric:
    form = AT_K[base]
    return Metric(f"{base}@{k}", form.definition.format(k), form.score(k), form.source, needs=form.needs)


def at_k(name: str) -> Metric | None:
    """Return the metric of a name such as "ndcg@10"; None if the name is no metric of `AT_K`.

    Raises:
        UserError: The name is one of `AT_K`, but its cutoff is missing or no whole number from 1 to 1000.
    """
    base, k = split_at_k(name) if "@" in name else (name, None)
    if base not in AT_K:
        return None
    if k is None:
        example = f"{base}@{AT_K[base].cutoffs[0]}"
        raise UserError(f"Metric {name!r}: write {base}@k, k a whole number from 1 to {LARGEST_K}, e.g. {example}.")
    return _at(base, k)


RETRIEVAL_METRICS = (
    *(_at("passage_recall", k) for k in AT_K["passage_recall"].cutoffs),
    Metric(
        "passage_recall[all]",
        "Share of the gold passages among all passages read in the run; undefined without gold ids.",
        scoring.on_read_ids(retrieval.recall_at),
        _HIPPO,
        needs=_BY_ID,
    ),
    *(_at(base, k) for base, form in AT_K.items() if base != "passage_recall" for k in form.cutoffs),
)
