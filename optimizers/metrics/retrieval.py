"""Retrieval metrics on passage ids: what was read against what the gold says is needed.

They are recalls of ids. Whether the answer string stands in some passage read is another question with another name
(`answer_in_context`) and is not asked here.
"""

from collections.abc import Sequence


def _ids(ids: Sequence[str]) -> list[str]:
    if isinstance(ids, str):
        raise TypeError(f"Ids must be a list, got the str {ids!r}. Write [{ids!r}].")
    return list(dict.fromkeys(ids))


def recall_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return the share of gold ids among the first `k` different ids read; None when there is no gold.

    Args:
        read: Ids in ranking or reading order; repeats are dropped before cutting at `k`.
        gold: Ids of the passages needed.
        k: How many ids count, at least 1; None for all.

    Returns:
        A share in [0, 1] (HippoRAG, `src/hipporag/evaluation/retrieval_eval.py`).

    Raises:
        TypeError: `read` or `gold` is a str.
        ValueError: `k` is below 1.
    """
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1, got {k}.")
    wanted = set(_ids(gold))
    return len(wanted & set(_ids(read)[:k])) / len(wanted) if wanted else None


def all_gold_at(read: Sequence[str], gold: Sequence[str], k: int | None = None) -> float | None:
    """Return 1.0 when every gold id is among the first `k` different ids read, else 0.0; None when there is no gold.

    Raises:
        TypeError: `read` or `gold` is a str.
        ValueError: `k` is below 1.
    """
    recall = recall_at(read, gold, k)
    return None if recall is None else float(recall == 1.0)


def support_f1(cited: Sequence[str], gold: Sequence[str]) -> float | None:
    """Return the F1 in [0, 1] of cited against gold ids as sets; 0 when nothing is cited, None when there is no gold.

    Raises:
        TypeError: `cited` or `gold` is a str.
    """
    named, wanted = set(_ids(cited)), set(_ids(gold))
    return 2 * len(named & wanted) / (len(named) + len(wanted)) if wanted else None
