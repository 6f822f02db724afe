"""Entities of a text by rule: titles of passages that it names, and runs of words with capital letters.

No model is asked, so that they cost fractions of a millisecond a passage. English, and other languages whose names
have capitals.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from corpora.retrievers.rerank_features import SHORTEST_TITLE, words_of
from signatures.common.words import QUERY_STOPWORDS
from signatures.text_words import without_brackets

VERSION = 1  # of the rules; part of fingerprints
_WORD = re.compile(r"[^\W_]+")
# Between the words of one name: a blank, a hyphen, an apostrophe, or the stop after an initial.
_INSIDE = re.compile(r"[ '’&-]{1,3}")
_INITIAL = re.compile(r"\. ?")
_JOINING = frozenset("of the de la le du von van der den del di da al for".split())
_JOINED = 2  # such words in a row inside a name at most
_LONGEST = 9  # words of an entity that is looked for in a question


def entity_key(name: str) -> str:
    """Return what is equal for two spellings of an entity: its words in lower case, without what brackets add."""
    return " ".join(words_of(without_brackets(name)))


def key_hash(key: str) -> int:
    """Return 64 bits that stand for a key in the files of a graph."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def keys_of(question: str, has: Callable[[int], bool]) -> Iterator[int]:
    """Yield the hashes of the entities in a question, from left to right, the longest at each place.

    Args:
        question: Entities begin with a capital or a digit.
        has: Whether the hash is that of a known entity.
    """
    words = _WORD.findall(question)
    place = 0
    while place < len(words):
        longest = min(_LONGEST, len(words) - place) if _begins(words[place]) else 0
        keys = (" ".join(words[place : place + count]).lower() for count in range(longest, 0, -1))
        key = next((key for key in keys if len(key) >= SHORTEST_TITLE and has(key_hash(key))), None)
        if key is not None:
            yield key_hash(key)
        place += 1 if key is None else key.count(" ") + 1


class Entities:
    """Finds the entities of texts.

    Args:
        titles: Those of the passages; an entity that is one is found wherever its words begin with a capital or a
            digit, others by their capitals alone.
    """

    def __init__(self, titles: Iterable[str]):
        self._titles = {key for title in titles if len(key := entity_key(title)) >= SHORTEST_TITLE}
        lengths = defaultdict(set)
        for key in self._titles:
            first, *rest = key.split(" ")
            lengths[first].add(1 + len(rest))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def __call__(self, text: str) -> Counter[str]:
        """Return the keys of the entities of a text, and how often each is named."""
        words = list(_WORD.finditer(text))
        small = [word[0].lower() for word in words]
        found: Counter[str] = Counter()
        for first, last in self._runs(text, words, small):
            named = list(self._named(small, first, last))
            found.update(named or self._unnamed(text, words, small, first, last))
        return found

    def _runs(self, text: str, words: Sequence[re.Match[str]], small: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the first and the last place of each run of words with capitals; between two, some small ones."""
        place = 0
        while place < len(words):
            if not _begins(words[place][0]):
                place += 1
                continue
            last = end = place
            while end + 1 < len(words) and _joined(text, words[end], words[end + 1]):
                end += 1
                if _begins(words[end][0]):
                    last = end
                elif small[end] not in _JOINING or end - last > _JOINED:
                    break
            yield place, last
            place = last + 1

    def _named(self, small: Sequence[str], first: int, last: int) -> Iterator[str]:
        """Yield the titles that begin in a run, from left to right, the longest at each place."""
        place = first
        while place <= last:
            keys = (" ".join(small[place : place + count]) for count in self._lengths.get(small[place], ()))
            key = next((key for key in keys if key in self._titles), None)
            if key is not None:
                yield key
            place += 1 if key is None else key.count(" ") + 1

    def _unnamed(
        self, text: str, words: Sequence[re.Match[str]], small: Sequence[str], first: int, last: int
    ) -> list[str]:
        """Return the key of a run that has no title; none for a single word that opens a sentence, or a number."""
        before = text[max(0, words[first].start() - 4) : words[first].start()].rstrip(" \"'“‘(")
        opens = not before or before[-1] in ".!?:\n"
        while first <= last and small[first] in QUERY_STOPWORDS:
            first, opens = first + 1, False
        run = small[first : last + 1]
        if not run or (len(run) == 1 and (opens or run[0].isdigit())) or len(key := " ".join(run)) < SHORTEST_TITLE:
            return []
        return [key]


def _begins(word: str) -> bool:
    return word[0].isupper() or word[0].isdigit()


def _joined(text: str, word: re.Match[str], after: re.Match[str]) -> bool:
    between = text[word.end() : after.start()]
    initial = len(word[0]) == 1 and _begins(word[0])
    return _INSIDE.fullmatch(between) is not None or (initial and _INITIAL.fullmatch(between) is not None)
