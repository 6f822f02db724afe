"""Invented names made of syllables; many share a word, so that passages about namesakes distract."""

import random

_ONSETS = "b br d dr f fl g gr h j k kr l m n p pr r s st t tr v w z th sh".split()
_VOWELS = "a e i o u ae ia o e a".split()
_CODAS = "l n r s th m nd rn sk ll x v".split()
_ADJECTIVES = "Silver Hollow Quiet Burning Distant Crooked Amber Frozen Gilded Broken Scarlet Hidden".split()
_NOUNS = "Harbour Lantern Orchard Tide Mirror Bridge Garden Winter Signal Meadow Anchor Compass Thorn Chapel".split()
_TRADES = "Works Mills Press Pictures Foundry Trading Instruments Optics Glass Railways".split()
_SCHOOLS = ("University", "Polytechnic", "Academy", "College")


class NameGenerator:
    """Generates names, each of them once.

    Args:
        seed: Seed of the world.
    """

    def __init__(self, seed: int):
        self._random = random.Random(f"names:{seed}")
        self._used: set[str] = set()
        self._words: set[str] = set()
        self._first = [self._word(2) for _ in range(36)]
        self._last = [self._word(2, coda=True) for _ in range(60)]

    def name(self, kind: str) -> str:
        """Return an unused name for an entity of a type."""
        for _ in range(10_000):
            name = self._draw(kind)
            if name not in self._used:
                self._used.add(name)
                return name
        raise RuntimeError(f"no more names of type {kind}")

    def _draw(self, kind: str) -> str:
        pick = self._random.choice
        if kind == "person":
            return f"{pick(self._first)} {pick(self._last)}"
        if kind == "film":
            return f"The {pick(_ADJECTIVES)} {pick(_NOUNS)}"
        if kind == "book":
            return f"{pick(('Letters from the', 'Notes on a', 'Beyond the', 'Under a', 'Songs of the'))} " + (
                f"{pick(_ADJECTIVES)} {pick(_NOUNS)}"
            )
        if kind == "company":
            return f"{pick(self._last)} {pick(_TRADES)}"
        if kind == "university":
            return f"{pick(self._last)} {pick(_SCHOOLS)}"
        return self._word(3 if kind == "province" else 2, coda=kind != "river")

    def _word(self, syllables: int, coda: bool = False) -> str:
        pick = self._random.choice
        while True:
            word = "".join(pick(_ONSETS) + pick(_VOWELS) for _ in range(syllables)) + (pick(_CODAS) if coda else "")
            if 4 <= len(word) <= 10 and word.capitalize() not in self._words:
                self._words.add(word.capitalize())
                return word.capitalize()
