"""Texts in groups that are alike, found without randomness."""

from collections.abc import Sequence
from typing import Any

from programs.parts.passages import terms_of
from signatures.types import Similarity

_ITERATIONS = 20


def clusters(texts: Sequence[str], similarity: Similarity | None, size: int) -> list[list[int]]:
    """Return the places of the texts in at most `size` clusters, each with what is most central in it first.

    k-medoids: the first medoid is the text most similar to all, each further one that which is least similar to those
    before; then texts go to their most similar medoid, and the most central text of a cluster becomes its medoid, until
    nothing changes. Ties go to the earlier text. The clusters are in the order of their first texts.

    Args:
        texts: To group.
        similarity: Compares them; without one, the share of terms that two texts have in common does.
        size: Clusters; fewer if there are fewer different texts.
    """
    if not texts:
        return []
    alike = _by_terms(texts) if similarity is None else similarity(list(texts), list(texts))
    near = [[float(value) for value in row] for row in alike]
    medoids = _first_medoids(near, texts, size)
    groups = _assigned(near, medoids)
    for _ in range(_ITERATIONS):
        central = [_central(near, group)[0] for group in groups]
        if central == medoids:
            break
        medoids, groups = central, _assigned(near, central)
    return sorted((_central(near, group) for group in groups), key=min)


def _by_terms(texts: Sequence[str]) -> list[list[float]]:
    terms = [terms_of(text) for text in texts]
    return [[len(one & other) / (len(one | other) or 1) for other in terms] for one in terms]


def _first_medoids(near: Any, texts: Sequence[str], size: int) -> list[int]:
    medoids = [max(range(len(near)), key=lambda place: sum(near[place]))]
    while len(medoids) < min(size, len(near)):
        closeness = [max(near[place][medoid] for medoid in medoids) for place in range(len(near))]
        # The same text again is no cluster of its own, nor is one with the same words. An embedder may compute
        # similarities of one text that differ in their last digits.
        taken = {texts[medoid] for medoid in medoids}
        farthest = min(
            (place for place in range(len(near)) if texts[place] not in taken), key=closeness.__getitem__, default=None
        )
        if farthest is None or near[farthest] in [near[medoid] for medoid in medoids]:
            break
        medoids.append(farthest)
    return medoids


def _assigned(near: Any, medoids: Sequence[int]) -> list[list[int]]:
    """Return the places by medoid; a medoid stays in its own cluster, so that none is empty."""
    groups: dict[int, list[int]] = {medoid: [] for medoid in medoids}
    for place in range(len(near)):
        own = place if place in groups else max(medoids, key=lambda medoid: near[place][medoid])
        groups[own].append(place)
    return list(groups.values())


def _central(near: Any, group: Sequence[int]) -> list[int]:
    """Return a cluster, the text first that is most similar to the others."""
    return sorted(group, key=lambda place: -sum(near[place][other] for other in group))
