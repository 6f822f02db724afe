"""An index that changes while it is served: new questions see the new one, begun ones the old one, none both."""

import asyncio
import errno
import gc
import json
import shutil
import threading
import weakref
from pathlib import Path

import dspy
import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.renew import renew_index
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.store import Stored
from experiments.pipeline.opened import OpenedProgram
from experiments.pipeline.setup import open_retriever
from experiments.runs.specs import ProgramSpec
from experiments.service.answering import Limits
from experiments.service.app import make_app
from experiments.service.run import Address, make_service
from experiments.service.served import Reloading, reloading
from experiments.service.tools import make_tools
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from programs.parts.prediction import make_prediction
from signatures.common.errors import UserError, UserNotice
from tests.experiments.service.conftest import PATIENCE

WORDS = ("amber", "brook", "cedar", "delta")


def write(folder: Path, generation: int) -> None:
    """Make the index that of passages which all name a generation, as many as it says more than four."""
    passages = [
        Stored(f"g{generation}-{n}".encode(), b"", f"{WORDS[n % 4]} of {generation}".encode(), b"")
        for n in range(4 + generation)
    ]
    renew_index(folder, lambda: passages, retriever="bm25")


class TwoSearches(dspy.Module):
    """Search, ask the LM, and search again."""

    def __init__(self, retrieve):
        super().__init__()
        self.retrieve, self.ask = retrieve, dspy.Predict("question -> answer")

    def forward(self, question, passages=None):
        first = self.retrieve("amber brook", 3)
        answer = self.ask(question=question).answer
        read = [*first, *self.retrieve("cedar delta", 3)]
        return make_prediction(answer, passages=read, citations=[read[0].id, read[-1].id])

    def max_calls(self):
        return 1


class Opened(OpenedProgram):
    """The program on an index, opened anew as those of the catalog are."""

    def reopened(self, **kept):
        retrieve = open_retriever(self.config)
        return Opened(TwoSearches(retrieve), self.connection, self.config)


@pytest.fixture
def index(tmp_path) -> Path:
    write(tmp_path / "index", 0)
    return tmp_path / "index"


@pytest.fixture
def connection(lm) -> Connection:
    return Connection(
        "scripted", metered_lm("local/scripted", engine=lm.engine, cache=False), JsonForm(), None, "samples"
    )


@pytest.fixture
def service(index, connection):
    config = ProgramSpec(program="tests:TwoSearches", index=index)
    opened = Opened(TwoSearches(open_retriever(config)), connection, config)
    return make_service(opened, Limits(width=8, queue=1000), Address(port=0))


@pytest.fixture
def said() -> list[str]:
    return []


def generations(texts) -> set[str]:
    return {text.rpartition(" ")[2] for text in texts}


async def ask(service) -> set[str]:
    async for event in service.answering.events("Where?"):
        last = event
    assert last.kind == "answer", last
    named = {id.partition("-")[0].removeprefix("g") for id in last.data["citations"]}
    return named | generations(passage["text"] for passage in last.data["passages"])


def test_a_begun_question_keeps_its_index_and_the_next_has_the_new_one(service, index, said, lm):
    renewing = Reloading(service, said.append)
    renewing.look()
    assert (service.about["index"]["swaps"], said) == (0, [])
    lm.held.clear()

    async def across() -> tuple[set[str], set[str]]:
        begun = asyncio.ensure_future(ask(service))
        await asyncio.to_thread(lm.await_calls, 1)
        write(index, 1)
        renewing.look()
        lm.held.set()
        return await begun, await ask(service)

    before = dict(service.about["index"])
    assert asyncio.run(across()) == ({"0"}, {"1"})
    now = service.about["index"]
    assert (now["swaps"], now["reload"], service.about["corpus"]) == (1, True, {"passages": 5})
    assert now["corpus_hash"] == json.loads((index / "index.json").read_text())["corpus_hash"] != before["corpus_hash"]
    assert now["fingerprint"] == service.retrieve.fingerprint != before["fingerprint"]
    assert len(said) == 1
    assert "5 passages" in said[0]


def test_a_folder_that_may_not_be_read_is_looked_at_again(service, index, said, monkeypatch):
    """Before, the thread that looks ended, and no later index was ever opened."""

    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    renewing = Reloading(service, said.append)
    renewing.look()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", refused)
        renewing.look()
        assert "Permission denied" in service.about["refused"]["index"]
    renewing.look()
    assert service.about["refused"] == {}
    write(index, 1)
    renewing.look()
    assert service.about["index"]["swaps"] == 1


def test_the_old_index_is_freed_when_nobody_reads_it(service, index, said):
    old = weakref.ref(service.retrieve)
    write(index, 1)
    Reloading(service, said.append).look()
    gc.collect()
    assert old() is None


@pytest.mark.slow
def test_no_answer_of_eight_threads_has_two_indexes(service, index, said):
    """Questions and searches without pause, while the index changes again and again."""
    renewing, ended = Reloading(service, said.append), threading.Event()
    seen: list[set[str]] = []
    errors: list[Exception] = []

    def ask_again() -> None:
        try:
            while not ended.is_set():
                seen.append(asyncio.run(ask_once()))
                seen.extend(generations(each.text for each in ranking) for ranking in service.retrieve.many(WORDS, 3))
        except Exception as error:  # noqa: BLE001 - of a thread
            errors.append(error)

    async def ask_once() -> set[str]:
        answer = await service.answering.answerer.acall("Where?")
        return generations(passage.text for passage in answer.passages)

    threads = [threading.Thread(target=ask_again) for _ in range(8)]
    for thread in threads:
        thread.start()
    for generation in range(1, 5):
        write(index, generation)
        renewing.look()
    ended.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    assert {len(each) for each in seen} == {1}
    assert len(set.union(*seen)) > 1
    assert service.about["index"]["swaps"] == 4
    assert asyncio.run(ask(service)) == {"4"}


def test_searches_and_tools_use_the_new_index(service, index, said):
    from mcp import Client
    from starlette.testclient import TestClient

    client, tools, renewing = TestClient(make_app(service), base_url="http://127.0.0.1"), make_tools(service), None

    def searched() -> tuple[set[str], str]:
        found = client.post("/retrieve", json={"queries": ["amber"], "topk": 3}).json()["result"][0]
        return generations(each["text"] for each in found), client.get("/v1/info").json()["index"]["corpus_hash"]

    async def read(id: str) -> tuple[set[str], bool]:
        async with Client(tools) as caller:
            ranked = (await caller.call_tool("search", {"query": "amber"})).structured_content["result"]
            return generations(each["text"] for each in ranked), (
                await caller.call_tool("read_passage", {"id": id})
            ).is_error

    renewing = Reloading(service, said.append)
    assert (searched()[0], asyncio.run(read("g0-1"))) == ({"0"}, ({"0"}, False))
    hash_before = searched()[1]
    write(index, 1)
    renewing.look()
    assert (searched()[0], asyncio.run(read("g1-1"))) == ({"1"}, ({"1"}, False))
    assert asyncio.run(read("g0-1")) == ({"1"}, True)
    assert searched()[1] != hash_before


def looks(renewing: Reloading, count: int = 200) -> None:
    for _ in range(count):
        renewing.look()


def test_a_half_copied_index_is_refused_once_and_used_when_it_is_whole(service, index, said, tmp_path):
    renewing = Reloading(service, said.append)
    renewing.look()
    write(tmp_path / "new", 1)
    shutil.copyfile(tmp_path / "new" / "index.json", index / "index.json")
    looks(renewing)
    assert len(said) == 1
    assert "cannot be used; the one before stays" in said[0]
    assert asyncio.run(ask(service)) == {"0"}
    shutil.copytree(tmp_path / "new", index, dirs_exist_ok=True)
    looks(renewing)
    assert (len(said), service.about["index"]["swaps"]) == (2, 1)
    assert asyncio.run(ask(service)) == {"1"}


def test_an_index_that_is_gone_or_of_another_embedder_is_refused(service, index, said, tmp_path):
    renewing = Reloading(service, said.append)
    index.rename(tmp_path / "away")
    looks(renewing)
    (tmp_path / "p.jsonl").write_text(json.dumps({"id": "a", "text": "amber"}))
    fake = Embedder("fake", encode=lambda texts: np.ones((len(texts), 8)))
    build_index(tmp_path / "p.jsonl", index, retriever="hybrid", embedder=fake)
    looks(renewing)
    assert ["contains no index" in said[0], "another embedder" in said[1], len(said)] == [True, True, 2]
    assert asyncio.run(ask(service)) == {"0"}
    shutil.rmtree(index)
    (tmp_path / "away").rename(index)
    looks(renewing)
    assert (len(said), service.about["index"]["swaps"]) == (2, 0)


def test_an_index_that_changes_while_it_is_opened_is_opened_anew(service, index, said, monkeypatch):
    renewing, left = Reloading(service, said.append), [2]
    real = Opened.reopened

    def slow(opened, **kept):
        found = real(opened, **kept)
        if left:
            write(index, left.pop())
        return found

    monkeypatch.setattr(Opened, "reopened", slow)
    write(index, 1)
    renewing.look()
    assert asyncio.run(ask(service)) == {"0"}
    renewing.look()
    assert (asyncio.run(ask(service)), service.about["index"]["swaps"]) == ({"2"}, 1)


def test_an_index_that_is_replaced_while_it_is_opened_is_not_refused(service, index, said, monkeypatch):
    renewing = Reloading(service, said.append)

    def torn(opened, **kept):
        monkeypatch.undo()
        write(index, 2)
        raise UserError("the store is missing")

    monkeypatch.setattr(Opened, "reopened", torn)
    write(index, 1)
    renewing.look()
    assert (said, asyncio.run(ask(service))) == ([], {"0"})
    renewing.look()
    assert (len(said), asyncio.run(ask(service))) == (1, {"2"})


def test_a_thread_looks_until_the_end(service, index, said, monkeypatch):
    monkeypatch.setattr("experiments.service.served._SECONDS", 0.001)
    swapped = threading.Event()
    with reloading(service, lambda text: said.append(text) or swapped.set()):
        write(index, 1)
        assert swapped.wait(PATIENCE)
    assert asyncio.run(ask(service)) == {"1"}


def test_it_can_be_switched_off_and_needs_an_index(index, connection):
    config = ProgramSpec(program="tests:TwoSearches", index=index)
    opened = Opened(TwoSearches(open_retriever(config)), connection, config)
    off = make_service(opened, Limits(), Address(port=0), reload=False)
    assert (off.opened, off.about["index"]["reload"]) == (None, False)
    with reloading(off, lambda text: None):
        assert threading.active_count()
        assert not [thread for thread in threading.enumerate() if thread.name == "index"]
    none = make_service(OpenedProgram(opened.program, connection), Limits(), Address(port=0))
    assert (none.opened, none.about["index"]) == (None, None)


def test_a_compiled_program_is_opened_anew_and_warns_of_the_corpus_as_at_the_start(index, tmp_path, lm, said):
    import verihop

    program = verihop.load(program="rag", index=index, lm="simulated")
    verihop.freeze(program, tmp_path / "artifact")
    opened = verihop.load(tmp_path / "artifact", index=index, lm="simulated")
    service = make_service(opened, Limits(), Address(port=0))
    renewing = Reloading(service, said.append)
    write(index, 1)
    with pytest.warns(UserNotice, match="was compiled on corpus"):
        renewing.look()
    assert (service.about["index"]["swaps"], service.about["program"]) == (1, "rag")
    assert service.answering.answerer.program.retrieve is service.retrieve


def test_a_new_artifact_answers_at_once_and_a_damaged_one_is_named(index, tmp_path, said):
    import verihop

    live = tmp_path / "live"
    for folder, name in ((live, "rag"), (tmp_path / "next", "multihop")):
        verihop.freeze(verihop.load(program=name, index=index, lm="simulated"), folder)
    service = make_service(verihop.load(live, index=index, lm="simulated"), Limits(), Address(port=0))
    renewing, before = Reloading(service, said.append), service.about["artifact"]
    renewing.look()
    assert said == []
    shutil.rmtree(live)
    renewing.look()
    assert said[0].startswith(f"The artifact {live} has changed, but cannot be used; the one before stays.")
    assert (service.about["program"], service.about["artifact"]) == ("rag", before)
    (tmp_path / "next").rename(live)
    for _ in range(4):  # what failed is looked at again after a pause
        renewing.look()
    assert said[1:] == [f"The artifact {live} has changed: it answers new questions (multihop)."]
    assert (service.about["program"], service.about["index"]["swaps"]) == ("multihop", 0)
    assert service.about["artifact"] != before


def test_a_new_artifact_retrieves_as_it_says_unless_the_start_has_named_otherwise(index, tmp_path):
    import verihop

    for folder, sentences in (("live", None), ("next", 2)):
        program = verihop.load(program="rag", index=index, lm="simulated", sentences=sentences)
        verihop.freeze(program, tmp_path / folder)
    opened = verihop.load(tmp_path / "live", index=index, lm="simulated")
    with pytest.warns(UserNotice, match="this one is"):
        fixed = verihop.load(tmp_path / "live", index=index, lm="simulated", sentences=1)
    shutil.rmtree(tmp_path / "live")
    (tmp_path / "next").rename(tmp_path / "live")
    assert (opened.config.sentences, opened.reopened().config.sentences) == (None, 2)
    assert opened.reopened().reopened().retrieve.sentences == 2
    with pytest.warns(UserNotice, match="this one is"):
        assert fixed.reopened().config.sentences == 1


@pytest.fixture
def live(index, tmp_path) -> Path:
    """Return the artifact that the service of `compiled` answers with; `next` beside it is one of another program."""
    import verihop

    for folder, name in (("live", "rag"), ("next", "multihop")):
        verihop.freeze(verihop.load(program=name, index=index, lm="simulated"), tmp_path / folder)
    return tmp_path / "live"


@pytest.fixture
def compiled(index, live):
    import verihop

    return make_service(verihop.load(live, index=index, lm="simulated"), Limits(), Address(port=0))


def test_a_broken_artifact_keeps_no_index_back(compiled, live, index, said, tmp_path):
    from starlette.testclient import TestClient

    renewing, client = Reloading(compiled, said.append), TestClient(make_app(compiled), base_url="http://127.0.0.1")
    renewing.look()
    (live / "artifact.json").write_text("{")
    looks(renewing)
    write(index, 1)
    looks(renewing)
    assert ["artifact" in said[0], "index" in said[1], len(said)] == [True, True, 2]
    assert (compiled.about["program"], compiled.about["corpus"]) == ("rag", {"passages": 5})
    assert compiled.answering.answerer.program.retrieve is compiled.retrieve
    assert generations(passage.text for passage in compiled.retrieve("amber", 3)) == {"1"}
    ready = client.get("/ready")
    assert (ready.status_code, ready.json()["refused"]) == (200, ["artifact"])
    assert str(live) in client.get("/v1/info").json()["refused"]["artifact"]
    shutil.rmtree(live)
    (tmp_path / "next").rename(live)
    with pytest.warns(UserNotice, match="was compiled on corpus"):
        looks(renewing)
    assert (compiled.about["program"], compiled.about["refused"], len(said)) == ("multihop", {}, 3)
    assert compiled.about["index"]["swaps"] == 1


def test_an_index_that_is_gone_keeps_no_artifact_back(compiled, live, index, said, tmp_path):
    renewing = Reloading(compiled, said.append)
    renewing.look()
    before = compiled.about["index"]
    index.rename(tmp_path / "away")
    shutil.rmtree(live)
    (tmp_path / "next").rename(live)
    looks(renewing)
    assert (compiled.about["program"], compiled.about["index"], list(compiled.about["refused"])) == (
        "multihop", before, ["index"],
    )  # fmt: skip
    (tmp_path / "away").rename(index)
    looks(renewing)
    assert compiled.about["refused"] == {}


def test_an_index_whose_passages_were_embedded_in_another_precision_is_used(tmp_path, connection, said):
    """Before, it was refused as one of another embedder, though queries are embedded as before."""
    (tmp_path / "p.jsonl").write_text(json.dumps({"id": "g0-a", "text": "amber of 0"}))

    def build(precision: str) -> None:
        build_index(
            tmp_path / "p.jsonl",
            tmp_path / "index",
            retriever="hybrid",
            embedder=Embedder(precision=precision),
            overwrite=(tmp_path / "index").exists(),
        )

    build("f32")
    config = ProgramSpec(program="tests:TwoSearches", index=tmp_path / "index")
    served = Opened(TwoSearches(open_retriever(config)), connection, config)
    service = make_service(served, Limits(width=8, queue=1000), Address(port=0))
    renewing = Reloading(service, said.append)
    build("bf16")
    renewing.look()
    assert ["new questions are answered from it" in text for text in said] == [True]
    assert service.about["index"]["swaps"] == 1
