import io

import pytest
from rich.console import Console

from experiments.annotation.review.terminal import plain, review_in_terminal


@pytest.fixture
def work():
    """Return a function that types lines as a reviewer and returns what was printed."""

    def run(session, *typed: str) -> str:
        out, left = io.StringIO(), list(typed)

        def ask(prompt: str) -> str:
            out.write(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        review_in_terminal(session, Console(file=out, width=100), ask)
        return out.getvalue()

    return run


def values(session) -> list[str | None]:
    return [
        decision.value if (decision := session.mine(item)) else None
        for card in session.review.cards
        for item in card.items
    ]


def test_facts_are_accepted_edited_rejected_and_skipped(work, keyfacts, session_of):
    session = session_of(keyfacts, "Ann")
    printed = work(session, "a", "e", "Pell grew up in the town of Vadley.", "", "r")
    assert values(session) == ["accept", "edit", None, "reject"]
    assert "Where did the architect" in printed
    assert "It was drawn by Mira Pell." in printed
    assert printed.count("Saved.") == 3


def test_an_invalid_key_is_asked_for_again(work, keyfacts, session_of):
    session = session_of(keyfacts, "Ann")
    printed = work(session, "x", "e", " ", "a", "q")
    assert "Type one of: a, e, r" in printed
    assert "Not saved: An edited key fact needs words." in printed
    assert values(session) == ["accept", None, None, None]


def test_a_reviewer_can_go_back_and_resume_later(work, keyfacts, session_of):
    work(session_of(keyfacts, "Ann"), "a", "b", "r", "q")
    session = session_of(keyfacts, "Ann")
    assert values(session) == ["reject", None, None, None]
    printed = work(session, "a")  # the input ends: what was said is kept
    assert "1 of 3" in printed
    assert values(session) == ["reject", "accept", None, None]


def test_nothing_left_is_said(work, keyfacts, session_of):
    session = session_of(keyfacts, "Ann")
    work(session, "a", "a", "a", "a")
    assert "No items are left to judge." in work(session)


def test_answers_are_rated_by_keys(work, make_run, make_row, rate, session_of):
    run = make_run("one", make_row("q1", "Pell drew it. She kept bees.", 1.0))
    session = session_of(rate([run], "helpful"), "Ann")
    printed = work(session, "1", "0")
    assert values(session) == ["1", "0"]
    assert "Answer" in printed


def test_untrusted_text_can_neither_colour_nor_move_the_screen(work, make_run, make_row, rate, session_of):
    run = make_run("one", make_row("q1", "[red]Vadley[/red] \x1b[2J\r done [/nope]", 1.0))
    printed = work(session_of(rate([run], "completeness"), "Ann"), "5")
    assert "[red]Vadley[/red]" in printed
    assert "\x1b[2J" not in printed
    assert "\r" not in printed
    assert plain("a\x1b[31mb\nc\x07") == "a\\x1b[31mb\nc\\x07"
