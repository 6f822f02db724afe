"""The passages of a training prompt: gold among those that the retriever returns for the query, shuffled."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage, Retriever

_DEPTH = 12  # passages retrieved per query, of which distractors are taken from the top
_MANY = 256  # queries searched at once
_COPY = 0.7  # share of words that two forms of one passage have in common, at least


class Contexts:
    """Mixes gold passages with distractors; each query is searched once.

    Args:
        retrieve: The retriever that the trained LM will work with, over a corpus that contains the gold.
        articles: Paragraphs by the title of their article; those beside the gold one distract before any others, the
            first of them those that share most words with the query.
        longest: Words of the longest passage that distracts; None for any.
    """

    def __init__(
        self,
        retrieve: Retriever,
        articles: Mapping[str, Sequence[Passage]] | None = None,
        longest: int | None = None,
    ):
        self._retrieve, self._longest = retrieve, longest
        self._articles = articles or {}
        self._found: dict[str, list[Passage]] = {}
        self._words: dict[str, frozenset[str]] = {}

    def ranked(self, query: str) -> list[Passage]:
        """Return the best passages for a query, without scores."""
        if query not in self._found:
            self._keep(query, self._retrieve(query, _DEPTH))
        return self._found[query]

    def search(self, queries: Iterable[str]) -> None:
        """Search for many queries at once, which is faster than one by one."""
        asked = [query for query in dict.fromkeys(queries) if query not in self._found]
        for start in range(0, len(asked), _MANY):
            some = asked[start : start + _MANY]
            for query, ranking in zip(some, self._retrieve.many(some, _DEPTH), strict=True):
                self._keep(query, ranking)

    def _keep(self, query: str, ranking: Sequence[Passage]) -> None:
        """Remember the passages of a ranking that prompts have room for, without scores."""
        kept = (hit for hit in ranking if self._longest is None or len(hit.text.split()) <= self._longest)
        self._found[query] = [Passage(id=hit.id, title=hit.title, text=hit.text) for hit in kept]

    def _distracting(self, query: str, titles: Collection[str]) -> list[Passage]:
        """Return the passages that distract from gold of some titles, most distracting first."""
        beside = [passage for title in titles for passage in self._articles.get(title, ())]
        if len(beside) < _DEPTH:
            return [*beside, *self.ranked(query)]
        asked = set(text_words(query))
        return sorted(beside, key=lambda passage: -len(asked & self._words_of(passage)))

    def _words_of(self, passage: Passage) -> frozenset[str]:
        if passage.id not in self._words:
            self._words[passage.id] = frozenset(text_words(passage.text))
        return self._words[passage.id]

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
        others = self._others(query, [*gold, *missing])
        passages = [*gold, *others[: max(size - len(gold), 0)]]
        rng.shuffle(passages)
        return passages

    def without(
        self, query: str, gold: Sequence[Passage], answers: Collection[str], size: int, rng: random.Random
    ) -> list[Passage]:
        """Return `size` passages that are not gold and contain none of the answers, shuffled."""
        told = [answer for answer in answers if same_words(answer) not in ("yes", "no")]
        others = self._others(query, gold)
        passages = [hit for hit in others if not any(contains_words(hit.text, answer) for answer in told)][:size]
        rng.shuffle(passages)
        return passages

    def _others(self, query: str, gold: Sequence[Passage]) -> list[Passage]:
        """Return what distracts from gold, most distracting first: no copy of it, and with titles where it has some."""
        ids = {passage.id for passage in gold}
        titled = any(passage.title for passage in gold)  # gold is not to be told by having a title
        return [
            hit
            for hit in self._distracting(query, dict.fromkeys(passage.title for passage in gold))
            if hit.id not in ids and bool(hit.title) == titled and not any(self._copies(hit, each) for each in gold)
        ]

    def _copies(self, one: Passage, other: Passage) -> bool:
        """Return whether two passages share most of their words: a corpus may hold one in two forms."""
        words, others = self._words_of(one), self._words_of(other)
        return len(words & others) >= _COPY * len(words | others)
