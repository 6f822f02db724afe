"""Logs as JSON lines: what happened, with a time and a level, without keys and, unless asked for, without texts."""

import json
import logging
import math
import sys
import threading
import warnings
from datetime import datetime

import pytest

from signatures.common.errors import UserError, UserNotice
from signatures.common.logs import LEFT_OUT, WEB_PAGE, are_json, event, json_logs, message_of, quotable, with_texts
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


def test_what_is_no_number_is_null(capsys):
    with json_logs():
        event("question", score=math.nan, scores={"em": math.inf, "f1": [0.5, -math.inf]})
    text = capsys.readouterr().err
    line = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    assert (line["score"], line["scores"]) == (None, {"em": None, "f1": [0.5, None]})


def test_a_library_with_handlers_of_its_own_writes_nothing_beside_the_lines(capsys, tmp_path):
    with json_logs():
        library = logging.getLogger("library.with.handlers")  # configured when it is imported, which may be now
        library.propagate = False
        library.setLevel(logging.INFO)
        library.addHandler(logging.StreamHandler(sys.stderr))
        library.addHandler(logging.FileHandler(tmp_path / "log"))
        library.info("started")
        library.warning("slow")
    (line,) = lines(capsys)
    assert (line["logger"], line["message"]) == ("library.with.handlers", "slow")
    assert (tmp_path / "log").read_text() == "started\nslow\n"
    library.warning("again")
    assert capsys.readouterr().err == "again\n"


@pytest.mark.parametrize("debug", [False, True])
def test_messages_of_dspy_contain_questions(debug, capsys):
    with json_logs(debug=debug):
        logging.getLogger("dspy.utils.parallelizer").error("Error for Example(question='Who?')")
    (line,) = lines(capsys)
    assert ("Who?" in line["message"]) == debug
    assert line["level"] == "error"
    assert debug or line["place"].startswith("test_logs:")


def test_an_error_that_ends_a_thread_is_a_line(capsys):
    def fail():
        raise RuntimeError("boom")

    with json_logs():
        thread = threading.Thread(target=fail, name="reader")
        thread.start()
        thread.join()
    (line,) = lines(capsys)
    assert (line["event"], line["thread"], line["exception"]) == ("crashed", "reader", "RuntimeError: boom")
    assert "in fail\n" in line["traceback"]


def test_what_messages_quote_is_left_out_without_debug():
    error = UserError("The server says: Who? Try again.").quoting("Who?")
    assert (message_of(error), quotable("Who?")) == (str(error), "Who?")
    with json_logs():
        assert message_of(error) == f"The server says: {LEFT_OUT} Try again."
        assert (quotable("Who?"), quotable("")) == (LEFT_OUT, "")
        page = WEB_PAGE.format(title=" ('Sign in (SSO)')")
        assert quotable(f"Who? HTTP 400: {page}. Who?") == WEB_PAGE.format(title="")
    with json_logs(debug=True):
        assert message_of(error) == str(error)
