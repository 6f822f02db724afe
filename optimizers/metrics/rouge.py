"""ROUGE between reasoning trajectories of the same question (GenGround's measure of stability).

Google's `rouge-score`: F1 of ROUGE-1, ROUGE-2 and ROUGE-L (of the whole text, not `rougeLsum`), without a stemmer. Its
tokens are Latin letters and digits only: texts in other scripts score 0.
"""

import functools
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

_KINDS = ("rouge1", "rouge2", "rougeL")


class Rouge(NamedTuple):
    """F1 in [0, 1] of unigrams, of bigrams and of the longest common subsequence."""

    rouge1: float
    rouge2: float
    rouge_l: float


@functools.cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # imported late: it imports nltk

    return RougeScorer(_KINDS, use_stemmer=False)


def rouge(first: str, second: str) -> Rouge:
    """Return the ROUGE F1 of two texts (symmetric); a text without tokens scores 0."""
    scores = _scorer().score(first, second)
    return Rouge(*(float(scores[kind].fmeasure) for kind in _KINDS))


def trajectory(hops: Sequence[Mapping[str, Any]]) -> str:
    """Return the hops of a row of a run as text, one line per hop: sub-question, answer and evidence."""
    parts = [[hop.get("question"), hop.get("answer"), hop.get("evidence")] for hop in hops]
    return "\n".join(" ".join(str(text) for text in hop if text) for hop in parts)


def mean_pairwise_rouge(texts: Sequence[str]) -> Rouge | None:
    """Return the mean ROUGE over all pairs of texts; None for fewer than two texts or if all are blank."""
    pairs = list(combinations(texts, 2))
    if not pairs or not any(text.strip() for text in texts):
        return None
    scores = [rouge(first, second) for first, second in pairs]
    return Rouge(*(sum(column) / len(pairs) for column in zip(*scores, strict=True)))
