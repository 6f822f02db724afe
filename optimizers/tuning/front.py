"""The Pareto front of scores and costs; apart from the study's records, so that reports need none of its modules."""

from collections.abc import Sequence


def front_places(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of (cost, score) that no other one surpasses in both, cheapest first; of equals the first."""
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1], place)):
        if not front or points[place][1] > points[front[-1]][1]:
            front.append(place)
    return front
