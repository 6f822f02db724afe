"""The part of a passage that holds the words of a query, in any script."""

import functools
import itertools
import re
import unicodedata
from collections import Counter
from typing import NamedTuple

from signatures.common.words import QUERY_STOPWORDS
from signatures.text import CJK

# Written without spaces between words: Han, kana, Thai, Lao, Tibetan, Burmese and Khmer; and Hangul, whose words are
# written together with their particles.
_UNSPACED = re.compile(f"[{CJK}\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\uac00-\ud7a3]")
_JOINERS = "\u200c\u200d"
_SINGLE = 0.01  # of a pair's or word's weight: one character of an unspaced script says little
_NEAR = 30  # characters: a space so near is a better place to cut than another boundary


class _Match(NamedTuple):
    """Where a term stands, and how much it counts."""

    start: int
    end: int
    term: str
    weight: float = 1.0


def snippet(text: str, query: str, longest: int = 240) -> str:
    """Return the part of a text with the most different words of the query, on one line; the first of equal ones.

    Words are compared as BM25 compares them. Of scripts without spaces, pairs of neighbouring characters are.

    Args:
        text: Of a passage.
        query: Its function words count only if it has no others.
        longest: Characters at most, without the dots where it was cut.
    """
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    wanted = {term for _, _, term, _ in _terms(query)}
    wanted = wanted - QUERY_STOPWORDS or wanted
    first, last = _best([match for match in _terms(line) if match.term in wanted], longest)
    # A third of what is left stands before the words; near the end of the text, more of it.
    begin = max(0, min(first - (longest - (last - first)) // 3, len(line) - longest))
    begin = _cut(line, range(begin, first + 1)) if begin else 0
    end = min(len(line), begin + longest)
    end = end if end == len(line) else _cut(line, range(end, max(last, begin + 1) - 1, -1))
    return f"{'... ' if begin else ''}{line[begin:end].strip()}{' ...' if end < len(line) else ''}"


def _terms(text: str) -> list[_Match]:
    """Return the words, and the characters and pairs of unspaced scripts, of a text in its order."""
    found: list[_Match] = []
    for kind, group in itertools.groupby(_clusters(text), key=lambda cluster: _kind(text[cluster[0]])):
        run = list(group)
        if kind == "word":
            start, end = run[0][0], run[-1][1]
            term = _stem(text[start:end].lower())
            found += [_Match(start, end, term)] if term else []
        elif kind == "unspaced":
            alone = _SINGLE if len(run) > 1 else 1.0
            found += [_Match(start, end, text[start:end], alone) for start, end in run]
            found += [_Match(start, end, text[start:end]) for (start, _), (_, end) in itertools.pairwise(run)]
    return sorted(found)


@functools.lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    """Return the stem of a word; a function word stays as it is, because its stem may be that of another word."""
    from corpora.retrievers.bm25 import stems

    return word if word in QUERY_STOPWORDS else " ".join(stems(unicodedata.normalize("NFC", word)))


def _clusters(text: str) -> list[tuple[int, int]]:
    """Return where each character begins and ends, with the marks that are drawn on it."""
    starts = [place for place in range(len(text)) if not _joined(text, place)]
    return [*itertools.pairwise((*starts, len(text)))]


def _joined(text: str, place: int) -> bool:
    """Return whether a character is drawn with the one before it."""
    if place == 0:
        return False
    character = text[place]
    if character.isascii():
        return False
    is_skin = "\U0001f3fb" <= character <= "\U0001f3ff"
    return unicodedata.category(character)[0] == "M" or character in _JOINERS or is_skin or text[place - 1] == "\u200d"


def _kind(character: str) -> str:
    if character.isascii():
        return "word" if character.isalnum() else ""
    if unicodedata.category(character)[0] not in "LMN":
        return ""
    return "unspaced" if _UNSPACED.match(character) else "word"


def _best(matches: list[_Match], longest: int) -> tuple[int, int]:
    """Return the narrowest part of the text with the most different terms; its beginning if there are none."""
    inside: Counter[str] = Counter()
    weight, best, right = 0.0, (0.0, 0, 0), 0
    for left, match in enumerate(matches):
        while right < len(matches) and (right == left or matches[right].end <= match.start + longest):
            inside[matches[right].term] += 1
            weight += matches[right].weight if inside[matches[right].term] == 1 else 0
            right += 1
        if weight > best[0] + _SINGLE / 2:  # more than what adding and subtracting rounds
            best = (weight, left, right)
        inside[match.term] -= 1
        weight -= match.weight if not inside[match.term] else 0
    held = matches[best[1] : best[2]]
    if not held:
        return 0, 0
    # Terms that stand again further on are not needed at either end.
    last = {match.term: place for place, match in enumerate(held)}
    held = held[next(place for place, match in enumerate(held) if last[match.term] == place) :]
    first = {match.term: match.end for match in reversed(held)}
    return held[0].start, min(max(first.values()), held[0].start + longest)


def _cut(line: str, places: range) -> int:
    """Return the place at which to cut: the first one at a space, if it is near, else the first between words."""
    near = places[:_NEAR]
    at_space = (place for place in near if " " in line[place - 1 : place + 1])
    between = (place for place in places if _between(line, place))
    whole = (place for place in places if not _joined(line, place))
    return next(itertools.chain(at_space, between, whole), places[0])


def _between(line: str, place: int) -> bool:
    return not (_joined(line, place) or _kind(line[place - 1]) == _kind(line[place]) == "word")
