"""Logs as JSON lines: what happened, with a time and a level, without keys and, unless asked for, without texts."""

import json
import logging
import warnings
from datetime import datetime

from signatures.common.errors import UserNotice
from signatures.common.logs import are_json, event, json_logs, with_texts
from signatures.common.secrets import register


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_events_are_lines_with_time_and_level(capsys):
    with json_logs():
        event("question", id="q1", seconds=0.5, stopped=None)
        event("question_texts", level=logging.DEBUG, question="Who?")
        assert (are_json(), with_texts()) == (True, False)
    (line,) = lines(capsys)
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {"level": "info", "event": "question", "id": "q1", "seconds": 0.5}


def test_debug_has_texts(capsys):
    with json_logs(debug=True):
        assert with_texts()
        event("question_texts", level=logging.DEBUG, question="Who \x1b[31m?\n")
    assert [line["question"] for line in lines(capsys)] == ["Who \x1b[31m?\n"]


def test_warnings_and_what_libraries_log_are_lines_as_well(capsys):
    with json_logs(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(UserNotice("the cache is cold"), stacklevel=1)
        warnings.warn("odd", RuntimeWarning, stacklevel=1)
        logging.getLogger("some.library").warning("slow: %s", 3)
        logging.getLogger("some.library").info("nobody asked")
        try:
            raise RuntimeError("boom")
        except RuntimeError:
            logging.getLogger("some.library").exception("failed")
    notice, warning, slow, failed = lines(capsys)
    assert (notice["event"], notice["message"]) == ("notice", "the cache is cold")
    assert (warning["event"], warning["category"]) == ("warning", "RuntimeWarning")
    assert (slow["logger"], slow["level"], slow["message"]) == ("some.library", "warning", "slow: 3")
    assert "RuntimeError: boom" in failed["traceback"]


def test_keys_are_hidden(capsys):
    key = "sk-4f9a8b7c6d5e4f3a2b1d"
    register(key)
    with json_logs():
        event("note", message=f"the key is {key}")
        try:
            raise RuntimeError(key)
        except RuntimeError:
            logging.getLogger("some.library").exception("with %s", key)
    assert key not in capsys.readouterr().err


def test_without_them_nothing_is_written(capsys):
    event("note", message="a")
    event("failed", level=logging.ERROR, message="b")
    assert (are_json(), with_texts()) == (False, False)
    assert capsys.readouterr().err == ""
