"""What an LM wrote for one field is read for what it says, and refused where it says nothing of the kind."""

import pytest

from programs.lms.tolerant import coerce


@pytest.mark.parametrize(
    ("written", "value"),
    [("__yes__", True), ("是的", True), ("是的。", True), ("不", False), ("1", True), ("0.", False), ('"1"', True)],
)
def test_yes_and_no_are_read_in_any_dress(written: str, value: bool) -> None:
    assert coerce(written, bool) is value


@pytest.mark.parametrize("written", ["0.9", "1.0", "0,5", "-1", ".1", "1%", "1/2", "10", "yesterday", "maybe", "", 0.9])
def test_what_says_neither_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="neither yes nor no"):
        coerce(written, bool)


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("1,000", int, 1000),
        ("about 12,345,678 people", int, 12345678),
        ("1,234.5", float, 1234.5),
        ("3, 4 and 5", int, 3),
        ("1,00", int, 1),
        ("-7", int, -7),
    ],
)
def test_thousands_may_be_set_apart(written: str, kind: type, value: float) -> None:
    assert coerce(written, kind) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("85%", 0.85),
        ("9/10", 0.9),
        ("20 % sure", 0.2),
        ("4 out of 5", 0.8),
        ("85", 85.0),
        ("1/0", 1.0),
    ],
)
def test_percentages_and_fractions_are_shares(written: str, value: float) -> None:
    assert coerce(written, float) == pytest.approx(value)
    assert coerce(f"A: {written}", list[float]) == pytest.approx([value])


@pytest.mark.parametrize(
    "written",
    [
        '```json\n["where is Quillon"]\n```',
        "```\nwhere is Quillon\n```",
        '```["where is Quillon"]```',
        "- where is Quillon",
    ],
)
def test_a_code_fence_is_no_item_of_a_list(written: str) -> None:
    assert coerce(written, list[str]) == ["where is Quillon"]
    assert coerce("```json\n[0.9, 1]\n```", list[float]) == [0.9, 1.0]


@pytest.mark.parametrize("written", ["1e999", float("inf"), float("nan"), "many"])
def test_what_is_no_number_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="number"):
        coerce(written, int)


@pytest.mark.parametrize(
    "written",
    ["[0.9, 1]", "0.9, 1.0", "- A: 0.9\n- B: 1", "1. 0.9\n2. 1.0", "A: 0.9; B: 1", "0.9 (high)\n1 (best)", [0.9, 1]],
)
def test_a_list_of_numbers_is_read_line_by_line(written: object) -> None:
    assert coerce(written, list[float]) == [0.9, 1.0]


def test_a_line_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="number"):
        coerce("0.9\nunsure", list[float])
