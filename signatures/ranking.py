"""The signature of reranking by an LM (Sun et al., EMNLP 2023, https://arxiv.org/abs/2304.09542); the words are ours.

Departure: the paper asks for relevance to a query; a passage with one fact that is needed on the way is asked for, too.
"""

import dspy

from signatures.types import Passage


class RankPassages(dspy.Signature):
    """Rank the passages by how much they help to answer the question, the most helpful first.

    One fact that is needed on the way to the answer helps, too. Give the number of every passage exactly once.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    ranking: str = dspy.OutputField(desc="all passage numbers, best first, in the form [2] > [3] > [1]; no other words")
