"""Degenerate replies take the documented fallback: they are counted, and no long or deep one reaches a parser."""

import json

import dspy
import json_repair
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import given
from hypothesis import strategies as st

from programs.lms import tolerant
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.tolerant import LONGEST_REPLY, REPAIRABLE, coerce, read_json
from programs.parts.meter import metered
from programs.parts.prediction import try_predict


class Everything(dspy.Signature):
    """Fill in every kind of field."""

    question: str = dspy.InputField()
    flag: bool = dspy.OutputField()
    answer: str = dspy.OutputField()
    names: list[str] = dspy.OutputField()
    scores: list[float] = dspy.OutputField()
    score: float = dspy.OutputField()


class OneWord(dspy.Signature):
    """Say yes or no."""

    question: str = dspy.InputField()
    flag: bool = dspy.OutputField()


DEGENERATE = {
    "braces": "{" * 256,
    "brackets": "[" * 10_000,
    "both": "{[" * 256,
    "objects": '{"answer":' * 5000,
    "lists in a field": '{"flag": true, "answer": ' + "[" * 100_000,
    "junk": "x" * 3_000_000,
    "junk in an object": "{" + "x" * 3_000_000,
    "quotation marks": "{" + '"' * 300_000,
    "broken strings": '{"answer": "' + 'a", "b' * 500_000,
    "digits": '{"score": ' + "1" * 3_000_000,
    "a number beyond floats": '{"flag": 1, "answer": "", "names": [], "scores": [], "score": ' + "1" * 2000 + "}",
    "NUL": "\0" * 1000,
    "surrogate": '{"flag": "\ud800"',
    "lines": "\n" * 3_000_000,
    "headers": "[[ ## flag ## ]]\n" * 150_000,
    "closing": "{" + "}{]" * 10_000,
    "emoji": "👍" * 100_000,
}


@pytest.fixture(autouse=True)
def parsed(monkeypatch):
    """Return the lengths of what was given to the repair of JSON, whose time grows with the square of the length."""
    lengths, repair = [], json_repair.loads

    def loads(text, *arguments, **options):
        lengths.append(len(text))
        return repair(text, *arguments, **options)

    monkeypatch.setattr(json_repair, "loads", loads)
    yield lengths
    assert max(lengths, default=0) <= REPAIRABLE


@pytest.mark.slow
@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("signature", [Everything, OneWord])
@pytest.mark.parametrize("form", [ChatForm, JsonForm])
def test_a_degenerate_reply_is_one_counted_parse_failure(form, signature, name, scripted):
    text = DEGENERATE[name].encode("utf-8", "replace").decode() if name == "surrogate" else DEGENERATE[name]
    scripted(lambda system, user: text, form())
    with metered() as meter:
        assert try_predict(dspy.Predict(signature), question="?") is None
    assert meter.parse_failures == 1


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("field", ["names", "scores", "score", "flag"])
def test_a_degenerate_field_is_a_parse_failure_or_text(field, name):
    values = {"flag": "yes", "answer": "x", "names": "- a", "scores": "1", "score": "1", field: DEGENERATE[name]}
    reply = "\n".join(f"[[ ## {key} ## ]]\n{value}" for key, value in values.items())
    try:
        said = ChatForm().parse(Everything, reply)["answer"]
    except AdapterParseError as error:
        said = str(error)  # it is logged and stored: not megabytes
    assert len(said) < 3 * LONGEST_REPLY


@given(st.lists(st.sampled_from([*'{}[]",:\\/*#\n 1ax-“', '{"flag":', "[[ ## flag ## ]]"]), max_size=300))
def test_no_reply_ends_in_anything_but_fields_or_a_parse_failure(pieces):
    for form in (ChatForm, JsonForm):
        for signature in (Everything, OneWord):
            try:
                fields = form().parse(signature, "".join(pieces))
            except AdapterParseError:
                continue
            assert set(fields) == set(signature.output_fields)


def test_a_long_reply_that_was_cut_off_is_still_read():
    """As with a small limit of tokens: the last text and the brackets are open."""
    whole = {"flag": True, "names": ["a [1]", 'said "{x}"'], "answer": "A long answer. " * 1000}
    text = json.dumps(whole)
    for cut in (len(text), len(text) - 3, len(text) - 500):
        read = read_json(text[:cut])
        assert read["names"] == whole["names"]
        assert whole["answer"].startswith(read["answer"])
    assert read_json(text + " I hope this helps!") == whole
    assert read_json(json.dumps({"a": "x" * 5000 + "\\"})[:-2])["a"].startswith("xxx")


def test_a_long_broken_reply_is_refused_by_its_length():
    with pytest.raises(ValueError, match=f"at most {REPAIRABLE:,} are repaired"):
        read_json("{" + "a: b " * 3000)


def test_brackets_within_brackets_are_limited_but_not_beside_one_another():
    with pytest.raises(ValueError, match=f"more than {tolerant.DEEPEST} brackets"):
        coerce("[" * 33, list[str])
    assert coerce("[" + ",".join(["[]"] * 100) + "]", list[list[str]]) == [[]] * 100


@pytest.mark.parametrize("value", [10**400, "9" * 400, [10**400]])
def test_numbers_that_are_too_large_are_parse_errors(value):
    with pytest.raises(ValueError):  # noqa: PT011 - which message depends on where it is found
        coerce(value, float)
