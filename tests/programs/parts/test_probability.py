"""P(yes) in three modes, on a server and on the embedded LM, and never a silent half."""

import dspy
import pytest

from programs.lms.adapter import ChatForm
from programs.lms.connect import ModelTraits, connect
from programs.lms.metered import metered_lm
from programs.parts.meter import metered
from programs.parts.probability import probability


class Supported(dspy.Signature):
    """Does the passage support the claim?"""

    claim: str = dspy.InputField()
    supported: bool = dspy.OutputField()


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


def test_a_server_that_forgets_its_logprobs_is_a_failure_and_no_half(server) -> None:
    connection = connect("m", api_base=server.base, traits=ModelTraits(probability_mode="logprobs"))
    server.top = None
    with connection.use(), metered() as meter:
        assert probability(dspy.Predict(Supported), claim="c") is None
    assert meter.parse_failures == 1


def test_neither_yes_nor_no_is_a_failure(server) -> None:
    connection = connect("m", api_base=server.base, traits=ModelTraits(probability_mode="logprobs"))
    server.text, server.top = "Perhaps", {"Perhaps": -0.1}
    with connection.use(), metered() as meter:
        assert probability(dspy.Predict(Supported), claim="c") is None
    assert meter.parse_failures == 1


def test_samples_are_drawn_apart_and_counted(ask) -> None:
    belief, meter, trace, _ = ask(lambda request: "no" if request.config.seed == 2 else "yes", "samples")
    assert belief.value == pytest.approx(4 / 5)
    assert belief.mode == "samples"
    assert (meter.calls, meter.rounds) == (5, 1)
    assert len(trace) == 1


def test_unreadable_samples_are_left_out_and_counted(ask) -> None:
    belief, meter, _, _ = ask(lambda request: "hm" if request.config.seed < 4 else "no", "samples")
    assert belief.value == 0.0
    assert meter.parse_failures == 3


def test_no_readable_sample_is_none(ask) -> None:
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
