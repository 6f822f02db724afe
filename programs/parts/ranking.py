"""Select evidence: claims that are new, scores that pass a gate, the best scores, and the texts closest to a query.

LMs write "None", "No further query is needed" or "Here are the queries:" where a list should be empty or begin; such an
item (`is_no_item`) is neither a claim nor a query.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from programs.parts.passages import terms_of
from signatures.text_words import same_words, text_words
from signatures.types import Similarity

Key = TypeVar("Key", bound=Hashable)

# On the words of an item: lower case, no punctuation, no articles, a blank between Chinese characters.
_NO_ITEM = re.compile(
    r"(?:none|nothing|nil|null|na|empty|unknown|not applicable|not needed|not required|not necessary"
    r"|no (?:(?:further|more|other|additional|new|relevant) )*"
    r"(?:quer(?:y|ies)|search(?:es)?|inferences?|information|facts?|claims?"
    r"|(?:(?:follow ?up|sub|intermediate) ?)*questions?)"
    r")?(?: (?:else|more|further|new))?(?: (?:is|are|can be))?"
    r"(?: (?:needed|required|necessary|missing|follows?|applicable|found|drawn|inferred|stated))?"
    r"|[无無]|没 有|沒 有|空|未 知|(?:不 需 要|[无無] 需)(?: [再进一步搜索检查询提问追]){0,6}|不 适 用|没 有 了"
)


def is_no_item(text: str) -> bool:
    """Return whether an item of a list, or a query, is empty, says that there is none, or announces a list (":")."""
    return text.rstrip(" *_`").endswith((":", "：")) or bool(_NO_ITEM.fullmatch(same_words(text)))


def passes(score: float | None, threshold: float) -> bool:
    """Return whether a score is above a threshold; an unparseable one (None) is not."""
    return score is not None and score > threshold


def passing(
    keys: Iterable[Key], scores: Mapping[tuple[Key, str], float | None], thresholds: Mapping[str, float]
) -> list[Key]:
    """Return the keys that pass all of their gates, in order; a key without a gate passes.

    Args:
        keys: The keys to filter.
        scores: P(yes) by key and name of the gate; None if unparseable.
        thresholds: The bound of each gate, which its score must exceed.
    """
    failed = {key for (key, gate), score in scores.items() if not passes(score, thresholds[gate])}
    return [key for key in keys if key not in failed]


def top(scores: Mapping[Key, float | None], size: int) -> list[Key]:
    """Return the keys of the `size` highest scores, best first; ties keep their order, unparseable scores come last."""
    return sorted(scores, key=lambda key: (scores[key] is None, -(scores[key] or 0.0)))[:size]


def closest(query: str, texts: Sequence[str], similarity: Similarity | None, size: int) -> list[int]:
    """Return the places of the `size` texts closest to a query, best first; texts that are equally close keep order.

    Without a similarity, a text is the closer the more terms it shares with the query: stems of content words, and
    pairs of neighbouring characters in Chinese.
    """
    if not texts:
        return []
    if similarity is None:
        wanted = terms_of(query)
        scores = [float(len(wanted & terms_of(text))) for text in texts]
    else:
        scores = [float(score) for score in similarity([query], list(texts))[0]]
    return sorted(range(len(texts)), key=lambda place: -scores[place])[:size]


def new_items(items: Iterable[str], known: Iterable[str], *, max_words: int | None = None) -> list[str]:
    """Return the items of a list, stripped, that say something (`is_no_item`) and are not `known`, each once.

    Items are compared by their words; in Chinese, each character is one.

    Args:
        items: Claims or queries, as an LM wrote them.
        known: What they must not repeat.
        max_words: Longer items are left out; None for no limit.
    """
    seen = set(map(same_words, known))
    new = []
    for item in items:
        words = same_words(item)
        too_long = max_words is not None and len(text_words(item)) > max_words
        if not is_no_item(item) and words not in seen and not too_long:
            seen.add(words)
            new.append(item.strip())
    return new
