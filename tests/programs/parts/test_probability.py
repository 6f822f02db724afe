"""P(yes) in three modes, on a server and on the embedded LM, and never a silent half."""

import math

import dspy
import pytest

from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import ModelTraits, connect
from programs.parts.meter import metered
from programs.parts.probability import probability, yes_no_by_logprobs, yes_share
from signatures.yes_no import parse_yes_no
from tests.programs.fakes import Supported


@pytest.fixture
def ask(echo):
    def run(reply, mode: str):
        lm = metered_lm("echo/p@1", engine=echo(reply), temperature=0.0)
        with dspy.context(lm=lm, adapter=ChatForm(probability_mode=mode), trace=[]), metered() as meter:
            predict = dspy.Predict(Supported)
            return probability(predict, claim="c"), meter, list(dspy.settings.trace), predict

    return run


def test_logprobs_of_a_server_are_summed_over_spellings(server) -> None:
    connection = connect("m", api_base=server.base)
    server.top = {"Yes": -1.0, "yes": -1.0, "No": -1.0}
    with connection.use(), dspy.context(trace=[]), metered() as meter:
        belief = probability(dspy.Predict(Supported), claim="c")
        (entry,) = dspy.settings.trace
    assert belief is not None
    assert belief.value == pytest.approx(2 / 3)
    assert belief.mode == "logprobs"
    assert meter.calls == 1
    body = server.seen[-1][2]
    assert (body["max_tokens"], body["top_logprobs"]) == (1, 20)
    assert dict(entry[2]) == {"supported": True}  # no log-probabilities in traces, hence none in demos


@pytest.mark.parametrize(("text", "top"), [("yes", None), ("Perhaps", {"Perhaps": -0.1})])
def test_a_server_without_logprobs_or_yes_and_no_is_a_failure_and_no_half(server, text, top) -> None:
    connection = connect("m", api_base=server.base, traits=ModelTraits(probability_mode="logprobs"))
    server.text, server.top = text, top
    with connection.use(), metered() as meter:
        assert probability(dspy.Predict(Supported), claim="c") is None
    assert meter.parse_failures == 1


def test_samples_are_drawn_separately_and_counted(ask) -> None:
    belief, meter, trace, _ = ask(lambda request: "no" if request.config.seed == 2 else "yes", "samples")
    assert belief.value == pytest.approx(4 / 5)
    assert belief.mode == "samples"
    assert (meter.calls, meter.rounds) == (5, 1)
    assert len(trace) == 1


def test_unparseable_samples_are_excluded_and_counted(ask) -> None:
    belief, meter, _, _ = ask(lambda request: "hm" if request.config.seed < 4 else "no", "samples")
    assert belief.value == 0.0
    assert meter.parse_failures == 3


def test_no_parseable_sample_is_none(ask) -> None:
    belief, meter, trace, _ = ask("hm", "samples")
    assert belief is None
    assert meter.parse_failures == 5
    assert trace == []


@pytest.mark.parametrize(("written", "value"), [("0.8", 0.8), ("85", 0.85), ("0.9 (high)", 0.9), ("0", 0.0)])
def test_a_written_number_is_read(ask, written: str, value: float) -> None:
    belief, _, trace, predict = ask(f"[[ ## probability ## ]]\n{written}", "verbalised")
    assert belief.value == pytest.approx(value)
    assert trace[0][0] is predict
    assert dict(trace[0][2]) == {"supported": value >= 0.5}


@pytest.mark.parametrize("written", ["-1", "400", "likely"])
def test_a_number_that_is_none_is_a_failure(ask, written: str) -> None:
    belief, meter, _, _ = ask(f"[[ ## probability ## ]]\n{written}", "verbalised")
    assert belief is None
    assert meter.parse_failures == 1


def test_only_a_single_bool_can_be_asked() -> None:
    with pytest.raises(ValueError, match="a bool"):
        probability(dspy.Predict("question -> answer"), question="q")


def test_demos_are_given_as_words(server) -> None:
    connection = connect("m", api_base=server.base)
    predict = dspy.Predict(Supported)
    predict.demos = [dspy.Example(claim="d", supported=True)]
    with connection.use():
        probability(predict, claim="c")
    assert [turn["content"] for turn in server.seen[-1][2]["messages"] if turn["role"] == "assistant"] == ["yes"]


def content(top: dict[str, float], *, chosen: str | None = None) -> list[dict]:
    chosen = chosen or next(iter(top))
    alternatives = [{"token": token, "logprob": math.log(value)} for token, value in top.items()]
    return [{"token": chosen, "logprob": math.log(top[chosen]), "top_logprobs": alternatives}]


YES, NO = ["yes", " Yes", "YES", "**Yes", "▁yes", "Ġtrue", "是", "是的", "__yes__"], ["no", " No.", "否", "不", "False"]
WORDS = {**dict.fromkeys(YES, True), **dict.fromkeys(NO, False), **dict.fromkeys(["", "not", "yesterday", "The"])}


@pytest.mark.parametrize("token", WORDS)
def test_yes_and_no_in_many_spellings_and_other_words_are_neither(token: str) -> None:
    assert parse_yes_no(token) is WORDS[token]


def test_all_spellings_are_summed_and_normalised() -> None:
    share = yes_share(content({"Yes": 0.3, " yes": 0.1, "No": 0.2, "Maybe": 0.4}))
    assert share == pytest.approx(0.4 / 0.6)


def test_chinese_counts_the_same() -> None:
    assert yes_share(content({"是": 0.6, "否": 0.2})) == pytest.approx(0.75)


def test_leading_blanks_are_passed_over() -> None:
    blank = {"token": "\n", "logprob": 0.0, "top_logprobs": []}
    assert yes_share([blank, *content({"no": 0.9, "yes": 0.1})]) == pytest.approx(0.1)


def test_neither_is_none_and_never_a_half() -> None:
    assert yes_share(content({"Maybe": 0.9})) is None
    assert yes_share([]) is None


def test_probabilities_settle_a_reply_that_says_neither() -> None:
    output = {"text": "The", "logprobs": {"content": content({"The": 0.5, "Yes": 0.3, "No": 0.1}, chosen="The")}}
    assert yes_no_by_logprobs(output)["text"] == "yes"
    assert yes_no_by_logprobs({**output, "text": "No."})["text"] == "No."
    assert yes_no_by_logprobs("The") == "The"
