"""Retrieval metrics: ids of the passages read against ids of the gold passages.

`read` is one ranking, or all that the hops of a question read, in reading order; `by_hop` is one list per hop. Scores
are in [0, 1], and None without gold. A str in place of a list raises TypeError, a `k` below 1 ValueError.
`answer_in_context` compares the answer string with the passages' text and is no recall.
"""

import math
import re
from collections.abc import Iterable, Sequence

from corpora.passages import document_title
from optimizers.metrics.answer import findable
from signatures.text import normalize_answer

_CONVERTED = re.compile(r"(.+)-[0-9a-f]{12}")  # `corpora.paragraphs.passage_id`: a title and a digest
_NOT_LETTERS = re.compile(r"[\W_]+")
_SLUG = 40


def distinct_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids, each once."""
    if isinstance(ids, str):
        raise TypeError(f"Ids must be a list, got the str {ids!r}. Write [{ids!r}].")
    return list(dict.fromkeys(ids))


def _ids_at(read: Sequence[str], gold: Sequence[str], k: int | None) -> tuple[list[str], set[str]]:
    """Return the first `k` different ids read, and the gold ids."""
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1, got {k}.")
    needed = set(distinct_ids(gold))
    return distinct_ids(read)[:k], needed


def recall_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return the share of gold ids among the first `k` different ids read; None without gold.

    Args:
        read: Ids in ranking or reading order; repeats are dropped before cutting at `k`.
        gold: Ids of the passages needed.
        k: Number of ids that count, at least 1; None for all.

    Returns:
        A share in [0, 1] (HippoRAG, `src/hipporag/evaluation/retrieval_eval.py`).
    """
    top, needed = _ids_at(read, gold, k)
    return len(needed & set(top)) / len(needed) if needed else None


def best_recall_at(read: Sequence[str], annotators: Iterable[Sequence[str]], k: int | None = None) -> float | None:
    """Return the greatest `recall_at` over the gold ids of each annotator; None if no annotator names an id.

    StrategyQA's annotators each named their evidence; annotators who named none are skipped.
    """
    return max((recall for gold in annotators if (recall := recall_at(read, gold, k)) is not None), default=None)


def all_gold_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return 1.0 if every gold id is among the first `k` different ids read, else 0.0; None without gold."""
    recall = recall_at(read, gold, k)
    return None if recall is None else float(recall == 1.0)


def support_f1(cited: Sequence[str], gold: Sequence[str]) -> float | None:
    """Return the F1 in [0, 1] of cited against gold ids as sets; 0 if nothing is cited, None without gold."""
    named, needed = set(distinct_ids(cited)), set(distinct_ids(gold))
    return 2 * len(named & needed) / (len(named) + len(needed)) if needed else None


def reciprocal_rank(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return 1 / rank of the first gold id among the first `k` ids, 0 if none is; None without gold.

    The mean over questions is MRR.
    """
    top, needed = _ids_at(read, gold, k)
    if not needed:
        return None
    return next((1 / rank for rank, name in enumerate(top, start=1) if name in needed), 0.0)


def hit_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return 1.0 if a gold id is among the first `k` different ids read, else 0.0; None without gold."""
    recall = recall_at(read, gold, k)
    return None if recall is None else float(recall > 0)


def ndcg_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return the discounted gain of the gold ids among the first `k` different ids read, over the best possible.

    Each gold id gains 1 / log2(rank + 1); the best ranking of at most `k` ids starts with gold ids only
    (trec_eval's `ndcg_cut` with relevance 0 or 1). None without gold.
    """
    top, needed = _ids_at(read, gold, k)
    if not needed:
        return None
    gains = [1 / math.log2(rank + 1) for rank, name in enumerate(top, start=1) if name in needed]
    best = [1 / math.log2(rank + 1) for rank in range(1, min(len(needed), k or len(needed)) + 1)]
    return math.fsum(gains) / math.fsum(best)


def average_precision_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return the mean, over all gold ids, of the precision at the rank of each; 0 for those not among the first `k`.

    As trec_eval's `map_cut`, which divides by the number of gold ids also where it is above `k`. The mean over
    questions is MAP. None without gold.
    """
    top, needed = _ids_at(read, gold, k)
    if not needed:
        return None
    ranks = [rank for rank, name in enumerate(top, start=1) if name in needed]
    return math.fsum(found / rank for found, rank in enumerate(ranks, start=1)) / len(needed)


def first_of_each(by_hop: Iterable[Sequence[str]], k: int) -> list[str]:
    """Return the first `k` different ids of every hop, in order of the hops, each once."""
    return distinct_ids([name for hop in by_hop for name in distinct_ids(hop)[:k]])


def hop_hits(by_hop: Iterable[Sequence[str]], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return the share of hops with a gold id among their first `k` ids; None without gold or such hops.

    Hops that read nothing (answered from memory) are skipped.
    """
    ranks = [reciprocal_rank(hop, gold, k) for hop in by_hop if hop]
    hits = [rank > 0 for rank in ranks if rank is not None]
    return sum(hits) / len(hits) if hits else None


def converted_article(passage_id: str) -> str | None:
    """Return the article key in an id that our converters made; None for any other id."""
    match = _CONVERTED.fullmatch(passage_id)
    return match[1] if match else None


def article(passage_id: str, title: str = "") -> str:
    """Return the key of a passage's article: from its title, else from an id that our converters made, else the id.

    The article of a passage of a cut document ("document > heading") is the document. Keys are lower-case letters and
    digits, at most 40 characters as in the ids: long titles that begin alike share a key.
    """
    if title.strip():
        return _NOT_LETTERS.sub("-", document_title(title).lower())[:_SLUG].strip("-") or passage_id
    return converted_article(passage_id) or passage_id


def answer_in_context(texts: Sequence[str], golds: Sequence[str]) -> float | None:
    """Return 1.0 if a normalised gold answer is part of one of the normalised texts, else 0.0.

    A hit rate, not a recall (FlashRAG and IRCoT print it as one). Accidental matches count: "21" is in "1921".

    Returns:
        None if no gold is `findable`.
    """
    if isinstance(texts, str) or isinstance(golds, str):
        raise TypeError("Texts and golds must be lists, got a str. Put it into a list.")
    answers = {normalize_answer(gold) for gold in findable(golds)}
    if not answers:
        return None
    return float(any(answer in text for text in map(normalize_answer, texts) for answer in answers))
