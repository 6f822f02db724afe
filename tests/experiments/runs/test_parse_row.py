"""A line is parsed once; what is read, and what is refused, is what a parse by the model and one by `json` give."""

import json
import re

import pytest
from pydantic import ValidationError

from experiments.runs.models import AnswerRow, parse_row
from signatures.common.errors import first_problem

ROW = {
    "id": "q1",
    "question": "Who?",
    "answers": ["a"],
    "scores": {"em": 1, "f1[hotpot]": 0.1},
    "calls": 3,
    "rounds": 2,
    "abstained": False,
    "parse_failures": 0,
    "truncated": 0,
    "error": None,
    "hops": [{"question": "x", "answer": "y", "candidates": [{"text": "t", "kept": True, "reason": "r"}]}],
    "details": {"odd": [1.5, {"deep": None}]},
    "own": 12345678901234567890,
}


def line(**changes):
    return json.dumps({**ROW, **changes}, ensure_ascii=False).encode()


def twice(raw):
    """The row as two parses give it, or the fault that they name."""
    try:
        AnswerRow.model_validate_json(raw)
    except ValidationError as error:
        return first_problem(error)
    return json.loads(raw)


LINES = {
    "plain": line(),
    "tuples": line(supporting_facts=[["Title", 0]]),
    "tuples of three": line(supporting_facts=[["Title", 0, 1]]),
    "text": line(answer="caf\u00e9 \u2028 \U0001f600 \\ud83d \x7f"),
    "a whole number of calls": line(calls=7),
    "a truth value for a number": line(calls=True),
    "a number for a truth value": line(abstained=1),
    "text for a number": line(scores={"em": "1"}),
    "not a number": line(scores={"em": float("nan")}),
    "not a number where anything may be": line(own=float("nan")),
    "a huge number": line(calls=10**400),
    "a huge number where anything may be": line(own=10**400),
    "a small number": line(seconds=5e-324),
    "decimals": line(seconds=0.1 + 0.2, wait_seconds=123456789.123456789),
    "an exponent": line().replace(b'"calls": 3', b'"calls": 3e2'),
    "an overflow": line().replace(b'"calls": 3', b'"calls": 1e999'),
    "a key twice": line().replace(b'"calls": 3', b'"calls": "x", "calls": 4'),
    "a key twice, the last wrong": line().replace(b'"calls": 3', b'"calls": 4, "calls": "x"'),
    "a lone surrogate": line(answer="?").replace(b'"?"', b'"\\ud83d"'),
    "not UTF-8": line(answer="?").replace(b'"?"', b'"\xff"'),
    "a control character": line(answer="?").replace(b'"?"', b'"\x01"'),
    "a list": b"[]",
    "a number": b"1",
    "nothing": b"",
    "half": line()[:50],
    "more": line() + b" {}",
    "spaces": b" " + line() + b" \t",
    "deep": line(own=None).replace(b'"own": null', b'"own": ' + 250 * b"[" + 250 * b"]"),
}


@pytest.mark.parametrize("what", LINES)
def test_one_parse_gives_what_two_give(what):
    expected = twice(LINES[what])
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
            parse_row(LINES[what], AnswerRow)
        return
    found = parse_row(LINES[what], AnswerRow)
    # As text, so that 1 is not 1.0 and not-a-number is itself.
    assert json.dumps({name: found[name] for name in expected}) == json.dumps(expected)
    assert set(found) - set(expected) <= set(AnswerRow.model_fields)
