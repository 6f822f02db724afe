"""Where the plot of score against tokens puts its points and their names."""

from experiments.analysis.report.scatter import scatter


def test_names_of_near_points_on_the_front_lie_above_and_below_in_turn():
    costs = [(100, 0.2), (300, 0.50), (310, 0.51), (320, 0.52), (5000, 0.9)]
    rows = [{"value": value, "tokens": tokens, "front": True} for tokens, value in costs]
    plot = scatter([*rows, {"value": 0.505, "tokens": 305, "front": False}])
    assert [point["below"] for point in plot["points"]] == [False, False, True, False, False, False]
