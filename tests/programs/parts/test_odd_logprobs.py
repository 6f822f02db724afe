"""Invalid log-probabilities: P(yes) is None and counted, or right, but never above 1 and never a traceback."""

import math

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import given
from hypothesis import strategies as st

from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.connect import ModelTraits, connect
from programs.parts.meter import metered
from programs.parts.probability import probability, yes_no_by_logprobs, yes_share
from tests.programs.fakes import Supported


def token(word, logprob, **more):
    return {"token": word, "logprob": logprob, **more}


@pytest.mark.parametrize(
    ("content", "share"),
    [
        ([token("Yes", -0.1, top_logprobs=[token("Yes", None), token("No", -2.0)])], None),
        ([token("Yes", -0.1, top_logprobs=[token("Yes", 1000), token("No", -2.0)])], None),
        ([token("Yes", -0.1, top_logprobs=[token("Yes", math.nan), token("No", -2.0)])], None),
        ([token("Yes", -0.1, top_logprobs=[token("Yes", math.inf)])], None),
        ([token("Yes", -0.1, top_logprobs=[token("Yes", "-0.1"), token("No", -2.0)])], None),
        ([token("Yes", -0.1, top_logprobs=[token("Yes", True), token("No", -2.0)])], None),
        ([token("Yes", -0.1, top_logprobs=[{"token": "Yes"}, token("No", -2.0)])], None),
        ([token("Yes", None)], None),
        ([{"token": "Yes"}], None),
        ([token("Yes", -math.inf)], None),
        ([token("Yes", 0.0, top_logprobs=[token("Yes", 0.0), token("No", -math.inf)])], 1.0),
        ([token("Yes", 0.0, top_logprobs=[token("Yes", 1e-6), token("No", -9999.0)])], 1.0),
        ([token("No", 0.0, top_logprobs=[token("Yes", -9999.0), token("No", 0)])], 0.0),
        ([token("Yes", 0.0, top_logprobs=[token("Yes", -1.0), token("No", -1.0), token("Perhaps", None)])], 0.5),
        ([token("Yes", -0.2, top_logprobs=None)], 1.0),
        ([token("Yes", -0.2, top_logprobs="Yes")], 1.0),
        ([token("Yes", -0.2, top_logprobs=[None, 7, "Yes", token(None, -1.0), token(7, -1.0)])], 1.0),
        ([{"logprob": -0.1}, None, 7, token(None, -0.1)], None),
        ([], None),
        (None, None),
        ({"Yes": -0.1}, None),
        ("Yes", None),
        (7, None),
    ],
)
def test_only_a_real_log_probability_counts(content, share):
    assert yes_share(content) == (None if share is None else pytest.approx(share))


numbers = st.one_of(st.none(), st.floats(), st.integers(-10, 2000), st.text(max_size=3), st.booleans())
odd = st.recursive(
    st.one_of(numbers, st.sampled_from(["Yes", "No", " yes"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["token", "logprob", "top_logprobs", "content"]), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(odd)
def test_whatever_is_sent_the_share_is_a_probability_or_none(value):
    for content in (value, [value], [{"token": "Yes", "logprob": -0.1, "top_logprobs": value}]):
        share = yes_share(content)
        assert share is None or 0.0 <= share <= 1.0


@pytest.mark.parametrize("logprobs", [None, {}, [], {"content": None}, {"content": {}}, {"tokens": ["Yes"]}, "x", 7])
def test_a_reply_without_content_of_log_probabilities_is_left_as_it_is(logprobs):
    output = {"text": "The", "logprobs": logprobs}
    assert yes_no_by_logprobs(output) == output


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize("logprobs", [{"content": None}, {"content": [{"token": "The"}]}, [], {"text": "yes"}])
def test_odd_log_probabilities_leave_a_parse_failure(form, logprobs):
    outputs = [{"text": "The", "logprobs": logprobs}]
    with pytest.raises(AdapterParseError):
        form()._call_postprocess(Supported, Supported, outputs, None, {})


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("value", [None, 1000, float("nan"), float("inf"), "x", True])
def test_a_server_with_odd_log_probabilities_is_a_failure(server, value):
    connection = connect("m", api_base=server.base, traits=ModelTraits(probability_mode="logprobs"))
    server.top = {"Yes": value, "No": -1.0}
    with connection.use(), metered() as meter:
        assert probability(dspy.Predict(Supported), claim="c") is None
    assert meter.parse_failures == 1


@pytest.mark.parametrize(("no", "share"), [(float("-inf"), 1.0), (-9999.0, 1.0), (-0.3, 0.5)])
def test_a_server_that_rules_out_a_word_is_right(server, no, share):
    connection = connect("m", api_base=server.base, traits=ModelTraits(probability_mode="logprobs"))
    server.top = {"Yes": -0.3, "No": no, "Perhaps": None}
    with connection.use():
        assert probability(dspy.Predict(Supported), claim="c").value == pytest.approx(share)
