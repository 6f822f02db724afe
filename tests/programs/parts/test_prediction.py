import pytest

from programs.parts.prediction import is_answer


@pytest.mark.parametrize(
    ("answer", "expected"), [("no", True), ("Unknown.", False), (" ", False), ("...", False), ("A", True)]
)
def test_nothing_and_unknown_are_no_answers(answer, expected):
    assert is_answer(answer) is expected
