"""The speed benchmarks: the loopback server makes programs take their steps, and what is fitted is what is stated."""

import subprocess
import sys
from typing import Any

import dspy
import pytest

from experiments.benchmarks.speed import loopback, throughput
from experiments.benchmarks.speed.loopback import HOPS, completion
from programs.genground import GenGround
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.connect import ModelTraits, connect
from programs.lms.servers.chat import ChatEngine
from programs.single_step.rag import RAG
from signatures.types import Passage


class Library:
    """A retriever that always finds the same passages, titled with the query."""

    fingerprint = "library"

    def __call__(self, query: str, k: int) -> list[Passage]:
        text = "This is what the library says. It says more."
        return [Passage(id=f"{query}-{number}", title=f"T{number}", text=text) for number in range(k)]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Library":
        return self


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


@pytest.mark.parametrize("adapter", [JsonForm(), ChatForm(), dspy.JSONAdapter(), dspy.ChatAdapter()])
def test_programs_take_their_steps_on_made_up_replies(adapter) -> None:
    engine = InProcess()
    lm = dspy.LM("loopback/m", engine=engine, cache=False)
    with dspy.context(lm=lm, adapter=adapter):
        read = RAG(Library())(question="Which town is older?")
        assert (bool(read.answer), engine.calls) == (True, 1)
        answers = [GenGround(Library())(question=f"Which town is older than {name}?") for name in "ABCDEF"]
    assert all(answer.answer for answer in answers)
    assert {len(answer.hops) for answer in answers} == {HOPS}
    verdicts = {hop.verdict for answer in answers for hop in answer.hops}
    assert verdicts - {"kept"}  # evidence of some batches is cited
    assert engine.calls > 1 + len(answers) * (2 * HOPS + 1)  # and that of others is not


def test_the_server_counts_calls_but_not_the_question_that_detects_the_model() -> None:
    with loopback.server(0.0) as base:
        connection = connect("loopback", api_base=base, cache=False, traits=ModelTraits(reasoning="off"))
        assert connection.probability_mode == "logprobs"
        assert loopback.stats_of(base)["calls"] == 0
        with connection.use():
            assert RAG(Library())(question="Which town is older?").answer
        stats = loopback.stats_of(base, replies=True)
        connection.close()
    assert (stats["calls"], stats["widest"], len(stats["replies"])) == (1, 1, 1)


def test_the_raw_client_sends_what_is_asked_of_it() -> None:
    module = [sys.executable, "-m", "experiments.benchmarks.speed.throughput_clients"]
    with loopback.server(0.0) as base:
        subprocess.run([*module, "raw", "--base", base, "--width", "3", "--count", "20"], check=True)
        stats = loopback.stats_of(base)
    assert stats["calls"] == 20
    assert stats["connections"] >= 3


def test_variants_are_chosen_by_the_beginning_of_their_names(tmp_path) -> None:
    words = ["--only", "eval rag", "--retrievers", "bm25", "--eval-args", "two=--processes 2"]
    given = throughput._parser().parse_args([*words, "--checkout", f"before={tmp_path},python9"])
    corpus = throughput.Corpus(tmp_path / "q.jsonl", {"bm25": tmp_path}, {"rag": 3, "genground": 3})
    found = {one.name: one for one in throughput.variants(corpus, given)}
    assert list(found) == ["eval rag bm25", "eval rag bm25 [two]", "eval rag bm25 [before]"]
    command = found["eval rag bm25 [two]"].command("URL", tmp_path / "out")
    assert command[command.index("--processes") + 1] == "2"
    before = found["eval rag bm25 [before]"]
    assert (before.folder, before.command("URL", tmp_path)[0]) == (tmp_path, "python9")
