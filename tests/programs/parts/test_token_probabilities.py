import math

import dspy
import pytest
from dspy.utils.exceptions import LMInvalidRequestError

from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.token_probabilities import character_probabilities, masked, text_probability, try_predict_scored
from signatures.common.errors import UserNotice


def content(*tokens):
    return [{"token": token, "logprob": math.log(share)} for token, share in tokens]


def test_each_character_has_the_probability_of_its_token():
    tokens = content(("She", 0.5), (" lives", 0.25), (" on", 1), (" Tr", 0.75), ("ent.", 0.125))
    found = character_probabilities("lives on Trent.", tokens)
    assert found == pytest.approx([0.25] * 5 + [1] + [1, 1] + [1] + [0.75] * 2 + [0.125] * 4)


def test_a_text_is_found_whatever_stands_around_it_and_the_last_counts():
    tokens = content(("[[ ## sentence ## ]]\nYes.", 0.5), ("\n", 0.1), ("Yes", 0.25), (".\n[[", 0.75))
    assert character_probabilities("Yes.", tokens) == pytest.approx([0.25] * 3 + [0.75])


@pytest.mark.parametrize("written", ['"Yes, \\"é\\"."', '"Yes, \\"\\u00e9\\"."'])
def test_a_text_is_found_in_a_json_object(written):
    tokens = content(('{"sentence": ', 1), (written[:6], 0.5), (written[6:-1], 0.25), ('"}', 1))
    assert character_probabilities('Yes, "é".', tokens) == pytest.approx([0.5] * 4 + [1] + [0.25] * 4)


def test_spaces_that_a_tokenizer_drops_do_not_matter():
    assert character_probabilities("on Trent", content(("on", 0.5), ("Trent", 0.25)))[3:] == pytest.approx([0.25] * 5)


@pytest.mark.parametrize("tokens", [None, "x", [], content(("No.", 1)), [{"token": "Yes.", "logprob": None}]], ids=str)
def test_there_is_none_without_log_probabilities_or_for_another_text(tokens):
    assert character_probabilities("Yes.", tokens) is None


def test_an_empty_text_has_none():
    assert character_probabilities(" ", content(("No.", 1))) is None


def test_improbable_characters_are_masked_and_what_is_left_stays_apart():
    shares = [1.0] * 4 + [0.1] * 3 + [1.0] * 3
    assert masked("abcdXYZefg", shares, 0.4) == "abcd efg"
    assert masked("abcdXYZefg", shares, 0.1) == "abcdXYZefg"
    assert masked("ab", [0.1, 0.1], 0.4) == ""


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize("mode", ["logprobs", "samples", "verbalised"])
def test_only_an_lm_that_gives_log_probabilities_is_asked_for_them(scripted, form, mode):
    engine = scripted(lambda system, user: {"sentence": "x"} if form is JsonForm else "x", form(probability_mode=mode))
    predict = dspy.Predict("question -> sentence")
    with dspy.context(trace=[]):
        reply, scores = try_predict_scored(predict, question="Who?")
        ((called, inputs, output),) = dspy.settings.trace
    assert (reply.sentence, scores, inputs) == ("x", None, {"question": "Who?"})
    assert called is predict
    assert output is reply
    assert (engine.requests[0].config.logprobs is not None) == (mode == "logprobs")


def test_an_unparseable_reply_is_none(scripted):
    scripted(lambda system, user: "?", JsonForm(probability_mode="logprobs"))
    with dspy.context(trace=[]):
        assert try_predict_scored(dspy.Predict("question -> sentence"), question="Who?") == (None, None)
        assert dspy.settings.trace == []


def test_the_probability_of_a_text_is_that_of_its_tokens_and_of_the_one_that_ends_it():
    tokens = content(('{"answer": "', 0.1), ("New", 0.5), (" York", 0.25), ('"}', 0.5), ("", 0.1))
    assert text_probability("New York", tokens) == pytest.approx(0.5 * 0.25 * 0.5)
    assert text_probability("New", tokens) == pytest.approx(0.5 * 0.25)


def test_a_token_that_ends_a_text_counts_once():
    assert text_probability("Orn", content(("Or", 0.5), ('n"}', 0.25), ("!", 0.1))) == pytest.approx(0.125)
    assert text_probability("Orn", content(("Or", 0.5), ("n", 0.25))) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("head", "end"),
    [
        ("[[ ## reasoning ## ]]\nc or d\n\n[[ ## answer ## ]]\n", "\n\n[[ ## completed ## ]]"),
        ('{"reasoning": "c or d", "answer": "', '"} as said'),
        ('{"answer": "', '", "reasoning": "c or d"}'),
    ],
)
def test_the_value_of_a_field_is_not_looked_for_in_what_follows_it(head, end):
    assert text_probability("d", content((head, 0.1), ("d", 0.5), (end, 1.0)), "answer") == pytest.approx(0.5)


def test_a_text_that_was_not_written_has_no_probability():
    assert text_probability("Orn", content(("Tarn", 0.5))) is None
    assert text_probability("", content(("Tarn", 0.5))) is None
    assert text_probability("Orn", None) is None


def test_what_a_chain_of_thought_was_asked_is_in_the_trace_as_its_predictor(scripted):
    scripted(lambda system, user: {"reasoning": "y", "sentence": "x"}, JsonForm(probability_mode="logprobs"))
    thinking = dspy.ChainOfThought("question -> sentence")
    with dspy.context(trace=[]):
        reply, _ = try_predict_scored(thinking, question="Who?")
        ((called, _, output),) = dspy.settings.trace
    assert called is thinking.predict
    assert (output.reasoning, output.sentence) == ("y", "x")
    assert reply is output


def test_an_lm_that_refuses_log_probabilities_is_asked_without_them(scored):
    def reply(system, user):
        if engine.requests[-1].config.logprobs is not None:
            raise LMInvalidRequestError("400 Logprobs is not enabled for models/m")
        return "[[ ## sentence ## ]]\nx"

    engine = scored(reply)
    predict = dspy.Predict("question -> sentence")
    with dspy.context(trace=[]):
        with pytest.warns(UserNotice, match="refuses log-probabilities"):
            assert try_predict_scored(predict, question="Who?")[0].sentence == "x"
        assert try_predict_scored(predict, question="When?")[1] is None
        assert len(dspy.settings.trace) == 2
    assert len(engine.requests) == 3  # it is not asked for them again


def test_another_refusal_is_no_reason_to_ask_again(scored):
    def reply(system, user):
        raise LMInvalidRequestError("400 The key is wrong.")

    engine = scored(reply)
    with pytest.raises(LMInvalidRequestError):
        try_predict_scored(dspy.Predict("question -> sentence"), question="Who?")
    assert len(engine.requests) == 1
