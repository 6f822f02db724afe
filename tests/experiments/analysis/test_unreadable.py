"""When a run says that its replies could not be parsed."""

from typing import Any

import pytest

from experiments.analysis.summary import mostly_unreadable, unread, unreadable


def row(failures: int, replies: int | None, example: str | None = None) -> dict[str, Any]:
    counted = {} if replies is None else {"replies": replies}
    return {"parse_failures": failures, **counted, **({} if example is None else {"unreadable": example})}


def test_a_run_is_suspect_when_more_than_half_of_its_replies_were_unparseable() -> None:
    assert mostly_unreadable([row(2, 4, "a")]) is None
    found = mostly_unreadable([row(1, 1, ""), row(2, 3, "junk"), row(0, 1)])
    assert found is not None
    assert (found.failures, found.replies, found.example, found.all) == (3, 5, "junk", False)
    assert str(found).startswith("3 of 5 replies of the LM could not be parsed, e.g. 'junk'.")


def test_no_readable_reply_at_all_is_said_so() -> None:
    found = mostly_unreadable([row(1, 1, ""), row(1, 1, "")])
    assert found is not None
    assert found.all
    assert str(found).startswith("No reply of the LM (2 of 2) could be parsed, e.g. an empty reply.")


@pytest.mark.parametrize("rows", [[], [row(0, 3)], [row(9, None)], [row(9, None), row(0, 1)]])
def test_runs_without_bad_replies_and_runs_of_older_versions_say_nothing(rows: list[dict[str, Any]]) -> None:
    assert mostly_unreadable(rows) is None


def test_control_characters_of_a_reply_do_not_reach_the_terminal() -> None:
    shown = str(unreadable(row(1, 1, "\x1b[2J\x9b1m\u202eevil")))
    assert "\\x1b[2J\\x9b1m\\u202eevil" in shown
    assert "\x1b" not in shown


def test_replies_are_the_reason_only_if_there_is_no_answer():
    assert unread(" ", row(1, 3, "junk")) == unreadable(row(1, 3, "junk"))
    assert unread("Veld", row(1, 3, "junk")) is None
    assert unread("", row(0, 3)) is None
