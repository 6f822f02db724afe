"""Every program on a stand-in of every server: answers come, and P(yes) is right or its mode says why not."""

import contextlib
import warnings
from collections.abc import Callable, Iterator

import dspy
import pytest

from programs.catalog import build
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection, connect
from programs.parts.meter import metered
from programs.parts.probability import probability
from signatures.common.errors import UserNotice
from tests.programs.lms.servers import quirks

MODEL, brain, StandIn = quirks.MODEL, quirks.standin.brain, quirks.standin.StandIn
pytestmark = pytest.mark.filterwarnings("always::signatures.common.errors.UserNotice")
PROGRAMS = ("rag", "genground", "cov_rag", "retro_rag")


@pytest.fixture
def connected() -> Iterator[Callable[[str], tuple[Connection, list[str]]]]:
    """Return a function that starts a stand-in and returns the connection to it and the notices shown."""
    with contextlib.ExitStack() as running:

        def join(name: str) -> tuple[Connection, list[str]]:
            server = StandIn(quirks.SERVERS[name][1])
            running.callback(server.close)
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter("always")
                connection = connect(MODEL, api_base=server.api_base)
            running.callback(connection.close)
            return connection, [str(item.message) for item in shown if issubclass(item.category, UserNotice)]

        yield join


@pytest.mark.slow
@pytest.mark.parametrize("name", quirks.SERVERS)
def test_every_program_answers_on_every_server(name: str, connected) -> None:
    asked = quirks.question_and_passages()
    connection, _ = connected(name)
    for program in PROGRAMS:
        with connection.use(), metered() as meter:
            prediction = build(program)(**asked)
        assert prediction.answer, program
        assert (meter.parse_failures, meter.thinking_only) == (0, 0), program
        assert "passages say" not in repr(prediction), "thinking is in the prediction"


@pytest.mark.slow
@pytest.mark.parametrize("name", quirks.SERVERS)
def test_the_probability_of_yes_is_that_of_the_model_or_says_why_not(name: str, connected) -> None:
    dialect, expected = quirks.SERVERS[name]
    connection, notices = connected(name)
    assert connection.server.dialect == dialect
    without = expected.logprobs in ("none", "chosen") or expected.thinks == "always"
    assert connection.probability_mode == ("samples" if without else "logprobs")
    assert bool(connection.server.no_logprobs) is without
    assert [text for text in notices if "P(yes) is computed from samples" in text] == [
        f"P(yes) is computed from samples: {connection.server.no_logprobs}."
    ] * without

    predict = dspy.Predict(quirks.IsRelevant)
    inputs = quirks.question_and_passages(most=1)
    with connection.use():
        found = probability(predict, **inputs)
    adapter = type(connection.adapter)(probability_mode=connection.probability_mode)  # samples have the same seeds
    with dspy.context(lm=metered_lm("brain/x", engine=brain(), temperature=0.0, cache=False), adapter=adapter):
        true = probability(predict, **inputs)
    assert found is not None
    assert true is not None
    assert found.value == pytest.approx(true.value, abs=1e-6)
