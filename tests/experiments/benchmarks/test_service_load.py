"""The measurement of the service: its clients, its quantiles, and the server that makes programs take their steps."""

import asyncio
from typing import Any

import dspy

from experiments.benchmarks.service_load import loopback
from experiments.benchmarks.service_load.__main__ import quantiles
from experiments.benchmarks.service_load.asking import seconds_of
from experiments.benchmarks.service_load.loopback import HOPS, completion
from programs.genground import GenGround
from programs.lms.adapter import JsonForm
from programs.lms.connect import ModelTraits, connect
from programs.lms.servers.chat import ChatEngine
from programs.single_step.rag import RAG


def test_every_answer_but_the_first_of_each_client_counts_and_no_question_comes_twice():
    asked: list[str] = []

    async def ask(question: str) -> None:
        asked.append(question)

    found = asyncio.run(seconds_of(ask, ["Who?", "Where?"], clients=3, each=4))
    assert len(found) == 12
    assert len(asked) == len(set(asked)) == 15


def test_quantiles():
    assert quantiles([float(n) for n in range(1, 101)]) == {"p50": 50.5, "p95": 95.95}


class InProcess:
    """An engine that answers as the loopback server does, without a server; counts its calls."""

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format")

    def __init__(self) -> None:
        self.sent = ChatEngine("http://127.0.0.1:9/v1", "m")
        self.calls = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "InProcess":
        return self

    def complete(self, request: dspy.lm15.Request) -> dspy.lm15.Response:
        self.calls += 1
        return self.sent._response(request, completion(self.sent._body(request)))


def test_programs_take_their_steps_on_made_up_replies(retriever) -> None:
    engine = InProcess()
    with dspy.context(lm=dspy.LM("loopback/m", engine=engine, cache=False), adapter=JsonForm()):
        read = RAG(retriever)(question="Which town is older?")
        assert (bool(read.answer), engine.calls) == (True, 1)
        answers = [GenGround(retriever)(question=f"Which town is older than {name}?") for name in "ABCDEF"]
    assert all(answer.answer for answer in answers)
    assert {len(answer.hops) for answer in answers} == {HOPS}
    verdicts = {hop.verdict for answer in answers for hop in answer.hops}
    assert verdicts - {"kept"}  # evidence of some batches is cited
    assert engine.calls > 1 + len(answers) * (2 * HOPS + 1)  # and that of others is not


def test_the_server_answers_as_one_whose_replies_have_probabilities(retriever) -> None:
    with loopback.server(0.0) as base:
        connection = connect("loopback", api_base=base, cache=False, traits=ModelTraits(reasoning="off"))
        assert connection.probability_mode == "logprobs"
        with connection.use():
            assert RAG(retriever)(question="Which town is older?").answer
        connection.close()
