"""Changes of documents are told once they have settled."""

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.sync.watch import changes, looks, settled
from tests.corpora.sync.conftest import write


def told(seen: str) -> list[int]:
    """Return at which of the looks, each a letter, a change is told."""
    place = [-1]

    def look():
        for place[0], letter in enumerate(seen):
            yield letter

    return [place[0] for _ in settled(look())]


@pytest.mark.parametrize(
    ("seen", "when"),
    [("", []), ("aaaa", []), ("abb", [2]), ("abcdd", [4]), ("aba", []), ("abbaa", [2, 4]), ("abbbb", [2]), ("ab", [])],
)
def test_a_change_is_told_when_the_next_look_sees_the_same(seen, when):
    assert told(seen) == when


@pytest.mark.parametrize(
    ("seen", "failures", "when"),
    [
        ("a" * 30, 0, []), ("a" * 30, 1, [10]), ("a" * 30, 2, [10, 20]), ("a" * 9 + "bb" + "b" * 12, 1, [10]),
        ("a" * 9 + "bb" + "b" * 12, 2, [10, 20]), ("a" * 9 + "bab" + "b" * 20, 9, [12, 22]),
    ],
)  # fmt: skip
def test_what_failed_is_tried_again_though_nothing_changes(seen, failures, when):
    """`failures` counts the one before the first look."""
    place, tried = [-1], []

    def look():
        for place[0], letter in enumerate(seen):
            yield letter

    for _ in settled(look(), failed=lambda: len(tried) < failures):
        tried.append(place[0])
    assert tried == when


@given(st.text("abc"))
def test_what_is_seen_twice_last_was_acted_on(seen):
    """Whatever happens, after the documents have settled the last sync saw them as they are."""
    acted = [seen[:1], *(seen[place] for place in told(seen))]
    if len(seen) > 1 and seen[-1] == seen[-2]:
        assert acted[-1] == seen[-1]
    assert all(one != other for one, other in pairwise(acted))


def test_a_look_sees_each_kind_of_change_and_a_folder_that_is_not_there(docs):
    waits = []
    seen = looks([docs], 1.0, wait=waits.append)
    states = [next(seen)]
    for act in (
        lambda: write(docs / "veld.txt", "Veld is another country."),
        lambda: write(docs / "new.md", "New."),
        (docs / "new.md").unlink,
        lambda: (docs / "veld.txt").rename(docs / "land.txt"),
        lambda: docs.rename(docs.parent / "gone"),
        lambda: (docs.parent / "gone").rename(docs),
    ):
        act()
        states.append(next(seen))
        assert states[-1] != states[-2]
    assert states[-1] == states[-3]
    assert next(seen) == states[-1]
    assert "does not exist" in states[-2]
    assert min(waits) >= 1


def test_a_change_before_the_first_question_is_told(docs):
    """As while the first sync is at work."""
    seen = changes([docs], wait=lambda seconds: None)
    write(docs / "new.md", "New.")
    assert list(islice(seen, 1)) == [None]


def test_what_is_done_with_a_look_is_no_part_of_it(docs, monkeypatch):
    """A sync of an hour is not followed by ten hours without a look."""
    clock, waits = [0.0], []
    monkeypatch.setattr("corpora.sync.watch.time.monotonic", lambda: clock[0])
    seen = looks([docs], 1.0, wait=waits.append)
    next(seen)
    clock[0] += 3600
    next(seen)
    assert waits == [1.0]
