"""Definitions of the metrics of whole trajectories: which of them deserve to be demonstrations."""

from optimizers.metrics import answer, retrieval, scoring
from optimizers.metrics.evidence.context import of_trajectory
from optimizers.metrics.metric import Metric, Need
from optimizers.metrics.scoring import Score

_DSPY = "https://arxiv.org/abs/2310.03714 (section 7; validate_context_and_answer_and_hops of its public code)"

_QUERIES = (
    "no query (the question of a hop) has more than 100 characters, and none from the second on repeats the question "
    "or an earlier query (F1 of their words at least 0.8)"
)
_GOLD = "undefined without gold answers or gold ids."


def multihop_trace(answered: Score, *, name: str = "multihop_trace", says: str = "The score of the answer") -> Metric:
    """Return DSPy's metric for demonstrations of a multi-hop program, with any score of the answer.

    Args:
        answered: Scores the answer of a prediction for an example, in [0, 1].
        name: Name of the metric in tables.
        says: What `answered` scores, as the beginning of a sentence.
    """
    return Metric(
        name,
        f"{says} where all gold passages were read and {_QUERIES}, else 0; {_GOLD}",
        of_trajectory(answered, scoring.on_read_ids(retrieval.all_gold_at)),
        _DSPY,
        needs=(Need.ANSWERS, Need.GOLD_IDS, Need.PASSAGES, Need.HOPS),
    )


TRAJECTORY_METRICS = (
    multihop_trace(scoring.on_answer(answer.exact_match), name="multihop_trace[em]", says="em"),
    multihop_trace(scoring.on_answer(answer.cover_substring), name="multihop_trace[acc]", says="acc[substring]"),
    Metric(
        "multihop_trace[dspy]",
        f"em where a normalised gold is part of a passage read and {_QUERIES}, else 0: for questions without gold ids; "
        "undefined without gold answers and for yes/no golds.",
        of_trajectory(scoring.on_answer(answer.exact_match), scoring.answer_in_context(None)),
        _DSPY,
        needs=(Need.ANSWERS, Need.TEXTS, Need.HOPS),
    ),
)
