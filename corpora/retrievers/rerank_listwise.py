"""Listwise reranking by an LM: it orders lists of passages, the last ones first, so that good ones move to the front.

Sun et al., "Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents", EMNLP 2023, section
3.2 and its public code (https://arxiv.org/abs/2304.09542): windows of 20 passages with step 10, passages cut to 300
words, replies such as `[2] > [1] > ...`, in which repeated and unknown numbers are ignored, and to which missing ones
are appended in their order.

Departure: the last window begins with the first passage whatever the number of passages is, where the code leaves out
those before a whole window. Departure: if a reply has numbers in brackets, its other numbers are ignored, which the
code would read as well. Departure: what an LM's context cannot hold is shown in smaller windows of shorter passages.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from corpora.retrievers.rerank_features import Pool
from signatures.common.errors import UserError
from signatures.common.files import utf8
from signatures.types import Passage

DEPTH = 20  # passages; the paper: 100
WINDOW, STEP = 20, 10
WORDS = 300  # of a passage
LEAST = 4  # passages of a window before they are shortened further
_SHORTEST = 16  # words of a passage
_LETTERS = 8  # characters a word at most: other scripts have no spaces
_MARKED = re.compile(r"\[\s*(\d{1,4})\s*\]")
_NUMBER = re.compile(r"(?<!\d)\d{1,4}(?!\d)")


class RankingLM(Protocol):
    """An LM that is asked to rank; safe under threads."""

    @property
    def fingerprint(self) -> str:
        """Return a short string without brackets that changes with the LM, its settings and the prompt."""

    def __call__(self, query: str, passages: Sequence[Passage]) -> str:
        """Return the reply: numbers of the passages, counted from 1, best first; empty if there is none."""

    def fits(self, query: str, passages: Sequence[Passage]) -> bool:
        """Return whether prompt and reply fit the context of the LM."""


class ListwiseScorer:
    """Scores candidates by their places in the order of an LM: 1, 1/2, 1/3 ... A single candidate takes no call.

    Args:
        lm: Orders the passages of a window.
        depth: First candidates that the LM sees; calls cost, so that further ones stay behind them as they are.
        window: Passages of a window, at least 2.
        step: Passages between the ends of two windows, 1 to `window`.

    Raises:
        UserError: `depth` is below 1.
    """

    def __init__(self, lm: RankingLM, *, depth: int = DEPTH, window: int = WINDOW, step: int = STEP):
        if depth < 1:
            raise UserError(f"An LM must rank at least 1 passage, got lm:{depth}: write lm:N, or lm for {DEPTH}.")
        self.depth = depth
        self._lm, self._window, self._step = lm, window, step

    @property
    def fingerprint(self) -> str:
        """Return the settings and the LM's own."""
        return f"listwise{self._window}/{self._step}/{WORDS}:{self._lm.fingerprint}"

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return one score for each candidate, whose places are all different."""
        passages, clean = pool.candidates, utf8(query)
        order = list(range(len(passages)))
        start = end = min(len(passages), self.depth)
        while start > 0 and len(passages) > 1:
            shown = self._shown(clean, [passages[place] for place in order[max(0, end - self._window) : end]])
            start = end - len(shown)
            ranked = permutation(self._lm(clean, shown), len(shown))
            order[start:end] = [order[start + place] for place in ranked]
            end -= max(1, self._step * len(shown) // self._window)
        places = {candidate: place for place, candidate in enumerate(order, start=1)}
        return [1 / places[candidate] for candidate in range(len(passages))]

    def _shown(self, query: str, passages: Sequence[Passage]) -> list[Passage]:
        """Return the last of the passages, as many as fit, and shortened where even a few do not."""
        words = WORDS
        while True:
            shown = [_shortened(passage, words) for passage in passages]
            while not (fits := self._lm.fits(query, shown)) and len(shown) > LEAST:
                del shown[0]
            if fits or words <= _SHORTEST:
                return shown
            words //= 2


def _shortened(passage: Passage, words: int) -> Passage:
    title, text = (
        " ".join(utf8(each[: 2 * _LETTERS * words]).split()[:words])[: _LETTERS * words]
        for each in (passage.title, passage.text)
    )
    return Passage(id=passage.id, title=title, text=text)


def permutation(reply: str, count: int) -> list[int]:
    """Return the numbers 0 to `count` - 1 in the order of a reply that counts from 1; see the module."""
    numbers = _MARKED.findall(reply) or _NUMBER.findall(reply)
    known = [int(number) - 1 for number in numbers if 1 <= int(number) <= count]
    return list(dict.fromkeys([*known, *range(count)]))
