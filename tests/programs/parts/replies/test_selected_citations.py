"""The marks of an answer engine, of which only those with a source are kept."""

import pytest

from programs.parts.replies.sources import select_citations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A [1] and B [2][3].", "A [7] and B [8]."),
        ("A [2], B [1, 2].", "A, B [7]."),
        ("A [1-3].", "A [7, 8]."),
        ("A [[1]] 【3】 [1990].", "A [[7]] 【8】 [1990]."),
        ("港[2]口。", "港口。"),
        ("A [1][2]. B [2][4] [9], C.", "A [7]. B, C."),
        ("", ""),
    ],
)
def test_marks_are_selected_by_number(text, expected):
    assert select_citations(text, {1: 7, 3: 8}.get) == expected
