"""The passages of a training prompt: gold among those that the retriever returns for the query, shuffled."""

import random
from collections.abc import Collection, Sequence

from signatures.text_words import contains_words, same_words
from signatures.types import Passage, Retriever

_DEPTH = 12  # passages retrieved per query, of which distractors are taken from the top


class Contexts:
    """Mixes gold passages with distractors; each query is searched once.

    Args:
        retrieve: The retriever that the trained LM will work with, over a corpus that contains the gold.
    """

    def __init__(self, retrieve: Retriever):
        self._retrieve = retrieve
        self._found: dict[str, list[Passage]] = {}

    def ranked(self, query: str) -> list[Passage]:
        """Return the best passages for a query, without scores."""
        if query not in self._found:
            ranking = self._retrieve(query, _DEPTH)
            self._found[query] = [Passage(id=hit.id, title=hit.title, text=hit.text) for hit in ranking]
        return self._found[query]

    def mixed(
        self,
        query: str,
        gold: Sequence[Passage],
        size: int,
        rng: random.Random,
        *,
        missing: Sequence[Passage] = (),
    ) -> list[Passage]:
        """Return `gold` and the best other passages, `size` in all (more if there is more gold), shuffled.

        Args:
            query: What is searched for.
            gold: Shown.
            size: Number of passages.
            rng: Of the order.
            missing: Not shown, although the query finds them: gold that the prompt is to lack.
        """
        known = {text for passage in (*gold, *missing) for text in (passage.id, same_words(passage.text))}
        others = [hit for hit in self.ranked(query) if not {hit.id, same_words(hit.text)} & known]
        passages = [*gold, *others[: max(size - len(gold), 0)]]
        rng.shuffle(passages)
        return passages

    def without(self, query: str, gold: Collection[str], answer: str, size: int, rng: random.Random) -> list[Passage]:
        """Return `size` passages that are not gold (ids) and do not contain the answer, shuffled."""
        yes_no = same_words(answer) in ("yes", "no")
        others = [
            hit for hit in self.ranked(query) if hit.id not in gold and (yes_no or not contains_words(hit.text, answer))
        ]
        passages = others[:size]
        rng.shuffle(passages)
        return passages
