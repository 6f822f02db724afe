"""Where the plot of score against tokens puts its points and their names."""

import pytest

from experiments.analysis.report.scatter import _LETTERS, scatter

FRONT = [(100, 0.2), (300, 0.50), (310, 0.51), (320, 0.52), (5000, 0.9)]


def rows(*points, front=True):
    return [{"label": f"run{tokens}", "value": value, "tokens": tokens, "front": front} for tokens, value in points]


def boxes(plot, screen):
    """Return what names and points take on a narrow screen (""), or on a wide one."""
    width, height = _LETTERS[screen]
    names = [each["name"] for each in (*plot["points"], *plot["lines"]) if each["name"]]
    for name in names:
        if screen == "wide" or not name["kind"]:
            left = name["x"] - (width * len(name["text"]) if name["ends"] else 0)
            yield left, name["y"] - height + 2, left + width * len(name["text"]), name["y"] + 2
    for point in plot["points"]:
        yield point["x"] - 4, point["y"] - 4, point["x"] + 4, point["y"] + 4


@pytest.mark.parametrize("screen", _LETTERS)
def test_names_lie_on_no_other_name_and_on_no_point(screen):
    crowd = rows(*[(300 + 40 * place, 0.1 + 0.03 * place) for place in range(20)], front=False)
    plot = scatter([*rows(*FRONT), *crowd], [("majority answer 'no'", 0.2), ("chance, of two", 0.22)], "run460")
    found = sorted(boxes(plot, screen))
    points = len(plot["points"])
    assert len(found) >= points + 5
    names = [box for box in found if box[2] - box[0] > 8.1]
    for box in names:
        assert box[0] >= 0
        assert box[2] <= 480
        others = [other for other in found if other is not box]
        assert not [o for o in others if box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3]]


def test_a_name_without_room_is_left_to_the_point():
    same = [{**rows((300, 0.5))[0], "label": f"a rather long name {n}"} for n in range(6)]
    named = [point["name"] for point in scatter(same)["points"]]
    assert None in named
    assert any(named)


def test_of_many_points_the_front_and_the_reference_are_named():
    crowd = rows(*[(200 * place, 0.1) for place in range(1, 9)], front=False)
    plot = scatter([*rows((100, 0.05), (5000, 0.9)), *crowd], reference="run800")
    assert sorted(point["name"]["text"] for point in plot["points"] if point["name"]) == ["run100", "run5000", "run800"]
