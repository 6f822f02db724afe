"""Compiling that stops, is repeated, goes on, or meets another compilation."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import dspy
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import Question
from corpora.retrievers.rerank import open_reranker
from experiments.pipeline.compile import compile_program
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.setup import open_retriever, with_artifact_defaults
from experiments.runs.specs import ProgramSpec
from optimizers.metrics.catalog import get_metric
from programs.artifact import digest_of, read_artifact
from programs.lms.adapter import ChatForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection, ModelTraits, connect
from programs.lms.spec import LMSpec
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.conftest import ListRetriever, ScriptedEngine

QUESTIONS = [Question(id=str(n), question=f"Question {n}?", answers=["right"]) for n in range(12)]


def link(
    engine: ScriptedEngine, model: str = "scripted/a", budget: Budget | None = None, **settings: Any
) -> Connection:
    lm = metered_lm(model, engine=engine, cache=False, budget=budget, **settings)
    return Connection("scripted", lm, ChatForm(), None, "samples")


def right(system: str, user: str) -> str:
    return "[[ ## answer ## ]]\nright\n\n[[ ## completed ## ]]"


@pytest.fixture
def make(tmp_path, passages):
    """Return a function that compiles RAG into `tmp_path/a` and returns the artifact."""

    def run(connection: Connection | None = None, *, retrieve: Any = None, **options: Any) -> Any:
        options = {"metric": get_metric("em"), "out": tmp_path / "a", "threads": 1, "progress": False, **options}
        student = options.pop("student", None) or RAG(retrieve or ListRetriever(passages))
        valset = options.pop("valset", [])
        config = {field.name: options.pop(field.name) for field in fields(CompileConfig) if field.name in options}
        lm = connection or link(ScriptedEngine(right))
        return compile_program(student, QUESTIONS, valset, CompileConfig(**config), connection=lm, **options)

    return run


def defaults(artifact: Path, **lm: Any) -> tuple[ProgramSpec, LMSpec]:
    return with_artifact_defaults(ProgramSpec(artifact=artifact), LMSpec(**lm))


def stop_after(calls: int) -> Connection:
    return link(ScriptedEngine(right), budget=Budget(calls=calls))


def test_a_finished_artifact_is_returned_by_resume_and_what_is_left_is_removed(make, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            "experiments.pipeline.compiling.checkpoint.shutil.rmtree", lambda path, **kwargs: None
        )  # killed before cleaning up
        made = make()
    assert (tmp_path / ".a.compiling").exists()
    engine = ScriptedEngine(right)
    assert make(link(engine), resume=True) == made
    assert engine.requests == []
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert make(link(engine), resume=True) == made


def test_a_finished_artifact_of_another_request_is_not_taken_for_this_one(make):
    make()
    with pytest.raises(UserError, match="of another request"):
        make(resume=True, max_demos=1)
    with pytest.raises(UserError, match="exists already"):
        make()


def test_resuming_an_overwriting_does_not_return_what_was_to_be_replaced(make):
    make()
    with pytest.raises(BaseException, match="budget"):
        make(stop_after(3), overwrite=True)
    engine = ScriptedEngine(right)
    make(link(engine), resume=True, overwrite=True)
    assert engine.requests


def test_what_fails_before_any_reply_leaves_nothing_that_is_in_the_way(make, tmp_path):
    def gone(system: str, user: str) -> str:
        raise UserError("no server")

    with pytest.raises(Exception, match="no server"):
        make(link(ScriptedEngine(gone)))
    assert list(tmp_path.iterdir()) == []
    assert make().optimizer["accepted"] == {"reading": 4}


def test_a_spent_budget_freezes_the_uncompiled_program_and_is_resumed(make, tmp_path):
    first = make(stop_after(2))
    assert first.optimizer["stopped"].startswith("The budget of 2 calls is used up")
    assert (first.optimizer["accepted"], first.optimizer["chosen"], first.optimizer["candidates"]) == (
        {"reading": 0},
        None,
        [],
    )
    assert (tmp_path / ".a.compiling" / "request.json").exists()
    with pytest.raises(UserError, match="was stopped: resume it"):
        make()
    with pytest.raises(UserError, match="had another optimizer"):
        make(resume=True, max_demos=1)
    whole = make(resume=True)
    assert (whole.optimizer["stopped"], whole.optimizer["accepted"]) == (None, {"reading": 4})
    assert whole.optimizer["cost"]["calls"] == 2 + 4  # of both sessions: this LM has no cache
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert make(link(ScriptedEngine(right)), resume=True) == whole


def test_an_artifact_is_not_replaced_by_an_uncompiled_program(make, tmp_path):
    before = make()
    with pytest.raises(BudgetExceeded, match="a is not replaced: no candidate was scored completely"):
        make(stop_after(2), overwrite=True)
    assert read_artifact(tmp_path / "a") == before
    assert make(resume=True, overwrite=True).optimizer["cost"]["calls"] == 2 + 4


@pytest.mark.parametrize(
    ("model", "settings", "corpus", "said"),
    [
        ("scripted/b", {}, "list", "another lm.model"),
        ("scripted/a", {"temperature": 0.7}, "list", "another lm.settings.temperature"),
        ("scripted/a", {"max_tokens": 7}, "list", "another lm.settings.max_tokens"),
        ("scripted/a", {}, "other", "another corpus"),
    ],
)
def test_another_lm_or_corpus_does_not_go_on_with_stopped_work(make, passages, model, settings, corpus, said):
    assert make(stop_after(2)).optimizer["stopped"]
    retrieve = ListRetriever(passages)
    retrieve.fingerprint = corpus
    with pytest.raises(UserError, match=said):
        make(link(ScriptedEngine(right), model, **settings), retrieve=retrieve, resume=True)


def test_two_compilations_into_one_folder_are_kept_apart(make, tmp_path):
    seen = []

    def reply(system: str, user: str) -> str:
        if not seen:
            seen.append(1)
            with pytest.raises(UserError, match="Another process is compiling"):
                make(overwrite=True)
            seen.append(2)
        return right(system, user)

    make(link(ScriptedEngine(reply)))
    assert seen == [1, 2]


def test_a_program_that_cannot_be_frozen_is_refused_before_any_call(make):
    engine = ScriptedEngine(right)
    with pytest.raises(UserError, match="not in the catalog"):
        make(link(engine), student=dspy.Module())
    assert engine.requests == []


def test_budget_and_model_are_written_down(make):
    made = make(stop_after(100))
    assert made.optimizer["budget"] == {"calls": 100, "tokens": None, "usd": None, "seconds": None}
    assert made.lm.model == "scripted/a"
    assert make(overwrite=True).optimizer["budget"] is None


def index_of(folder: Path, text: str) -> str:
    """Build an index of one passage; return its fingerprint."""
    corpus = folder.parent / f"{folder.name}.jsonl"
    corpus.write_text(json.dumps({"id": "1", "text": text}))
    build_index(corpus, folder, retriever="bm25")
    return open_index(folder).fingerprint


def rewrite(artifact: Path, change: Callable[[dict], object]) -> None:
    record = json.loads((artifact / "artifact.json").read_text())
    change(record)
    (artifact / "artifact.json").write_text(json.dumps({**record, "digest": digest_of(record)}))


def test_the_index_is_found_from_any_folder_and_after_moving_both(make, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    fingerprint = index_of(home / "index", "fog")
    monkeypatch.chdir(home)
    made = make(out=Path("runs/a"), index=Path("index"))
    rewrite(home / "runs" / "a", lambda record: record.update(corpus=fingerprint))
    assert made.data["index"] == "../../index"
    monkeypatch.chdir("/")
    assert defaults(home / "runs" / "a")[0].index == home / "index"
    home.rename(tmp_path / "moved")
    assert defaults(tmp_path / "moved" / "runs" / "a")[0].index == tmp_path / "moved" / "index"


def test_an_artifact_cannot_name_an_index_that_it_was_not_compiled_on(make, tmp_path):
    make(index=tmp_path / "index")
    index_of(tmp_path / "index", "the user's own papers")
    with pytest.raises(UserError, match="not the one it was compiled on: name the index yourself"):
        defaults(tmp_path / "a")


@pytest.mark.parametrize("stored", [7, ["index"], "a\0b", "x" * 5000, {"path": "index"}])
def test_what_is_no_path_of_an_index_is_refused(stored, make, tmp_path):
    make()
    rewrite(tmp_path / "a", lambda record: record["data"].update(index=stored))
    with pytest.raises(UserError, match="names no folder as its index"):
        defaults(tmp_path / "a")


def test_an_artifact_of_an_lm_on_a_server_asks_for_the_address(make, tmp_path):
    make()
    path = tmp_path / "a" / "artifact.json"
    record = json.loads(path.read_text())
    server = connect(
        "Qwen/m", api_base="http://127.0.0.1:9/v1", traits=ModelTraits(probability_mode="samples", context_size=999)
    )
    record["lm"] = {"id": server.id, "model": server.lm.model, "adapter": "ChatForm", "probability_mode": "samples"}
    path.write_text(json.dumps({**record, "digest": digest_of(record)}))
    assert read_artifact(tmp_path / "a").lm
    with pytest.raises(UserError, match=r"'Qwen/m' on a server: name its URL \(api_base\)"):
        defaults(tmp_path / "a")
    assert defaults(tmp_path / "a", api_base="http://x/v1")[1].id == "Qwen/m"
    assert defaults(tmp_path / "a", id="embedded")[1].id == "embedded"


def test_a_metric_of_a_judge_is_refused(make, tmp_path):
    with pytest.raises(UserError, match=r"acc\[judge\] is decided by a judge LM"):
        make(metric=get_metric("acc[judge]"))
    assert not (tmp_path / "a").exists()


def compiled_with_reranking(make, home: Path, rerank: str) -> None:
    index_of(home / "index", "fog")
    retrieve = open_reranker(open_index(home / "index"))
    make(out=home / "a", index=home / "index", retrieve=retrieve, provenance={"rerank": rerank})


def test_our_reranker_is_opened_again_with_the_artifact_unless_another_is_named(make, tmp_path):
    compiled_with_reranking(make, tmp_path, "own")
    found = defaults(tmp_path / "a")[0]
    assert (found.index, found.rerank) == (tmp_path / "index", "own")
    assert open_retriever(found).fingerprint == read_artifact(tmp_path / "a").corpus
    named = ProgramSpec(artifact=tmp_path / "a", rerank="none")
    assert with_artifact_defaults(named, LMSpec())[0].rerank == "none"


def test_a_model_that_an_artifact_names_as_reranker_is_not_opened_unasked(make, tmp_path):
    compiled_with_reranking(make, tmp_path, "stranger/model")
    assert defaults(tmp_path / "a")[0].rerank is None


@pytest.mark.parametrize(
    ("stored", "found"),
    [("bm25", "bm25"), ("multihop", None), (["bm25"], None), ("stranger:search", None), ("serper", None)],
)
def test_the_retriever_of_an_artifact_is_opened_again_if_its_index_serves_it(make, tmp_path, stored, found):
    index_of(tmp_path / "index", "fog")
    make(
        out=tmp_path / "a",
        index=tmp_path / "index",
        retrieve=open_index(tmp_path / "index"),
        provenance={"retriever": stored},
    )
    assert defaults(tmp_path / "a")[0].retriever == found


@pytest.mark.parametrize(("stored", "found"), [(6, 6), ("6", None), (True, None)])
def test_the_sentences_of_an_artifact_are_chosen_again_unless_another_number_is_named(make, tmp_path, stored, found):
    index_of(tmp_path / "index", "fog")
    make(
        out=tmp_path / "a",
        index=tmp_path / "index",
        retrieve=open_index(tmp_path / "index"),
        provenance={"sentences": stored},
    )
    assert defaults(tmp_path / "a")[0].sentences == found
    named = ProgramSpec(artifact=tmp_path / "a", sentences=0)
    assert with_artifact_defaults(named, LMSpec())[0].sentences == 0


def test_sentences_need_an_index():
    with pytest.raises(UserError, match="The choice of 8 sentences needs an index"):
        open_retriever(ProgramSpec(program="rag", sentences=8))
    assert open_retriever(ProgramSpec(program="rag", sentences=0)) is None


def test_a_reranker_needs_an_index():
    with pytest.raises(UserError, match="The reranker own needs an index"):
        open_retriever(ProgramSpec(program="rag", rerank="own"))
    assert open_retriever(ProgramSpec(program="rag", rerank="none")) is None
