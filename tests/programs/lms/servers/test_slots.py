"""No more calls are sent at a time than the server has slots, and those that wait do not run out of time."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from programs.lms.calls.transport import Transport
from programs.lms.connect import ModelTraits, connect
from signatures.common.errors import UserNotice
from tests.programs.lms.servers import quirks

SLOTS = 4


@pytest.fixture
def llamacpp(monkeypatch):
    monkeypatch.setattr("programs.lms.calls.retry._limits", {})  # no limit of an earlier server at this port
    server = quirks.standin.StandIn(quirks.SERVERS["llama.cpp"][1])
    yield server
    server.close()


@pytest.mark.filterwarnings("ignore::signatures.common.errors.UserNotice")
def test_calls_in_flight_are_the_slots_of_the_server(llamacpp) -> None:
    connection = connect(quirks.MODEL, api_base=llamacpp.api_base, transport=Transport(connections=64), cache=False)
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda number: connection.lm(f"Question {number}"), range(64)))
    assert len(replies) == 64
    assert llamacpp.widest <= SLOTS
    assert connection.lm.concurrency.limit == SLOTS  # calls wait there, before their time begins
    connection.close()


@pytest.mark.parametrize(("connections", "noticed"), [(64, True), (32, False), (2, False)])
def test_more_threads_than_slots_are_a_notice(llamacpp, connections, noticed) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        connection = connect(
            quirks.MODEL, api_base=llamacpp.api_base, transport=Transport(connections=connections),
            traits=ModelTraits(probability_mode="logprobs"),
        )  # fmt: skip
    texts = [str(item.message) for item in shown if issubclass(item.category, UserNotice)]
    assert any("answers 4 calls at a time" in text for text in texts) is noticed
    connection.close()
