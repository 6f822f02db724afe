"""Programs that consist of others in the pipeline: opened, described, and asked for what their parts need."""

from types import SimpleNamespace

import dspy
import pytest

from experiments.pipeline.corpus_notes import run_notes
from experiments.pipeline.setup import open_program, require_retriever
from experiments.runs.config import describe_program
from experiments.runs.specs import ProgramSpec
from programs.artifact import freeze, retrieves
from programs.catalog import build
from programs.ensemble import Ensemble
from programs.inference import warm_up
from programs.lms.adapter import ChatForm
from programs.nearest_demos import NearestDemos, PoolQuestion
from signatures.common.errors import UserError


class Zero:
    fingerprint = "zero"

    def __call__(self, left, right):
        return [[0.0] * len(right) for _ in left]


def nearest(answer, retriever=None, k=2):
    demo = dspy.Example(question="Q?", passages=[], answer=answer)
    return NearestDemos(build("rag", retriever, k=k), [PoolQuestion("Who?", {"reading": [demo]})], Zero())


def test_the_similarity_of_a_part_is_loaded_before_the_first_question(monkeypatch):
    loaded = []
    monkeypatch.setattr(Zero, "load", lambda self: loaded.append("similarity"), raising=False)
    warm_up(Ensemble([build("cot"), nearest("a")]), SimpleNamespace(lm=SimpleNamespace()))
    assert loaded == ["similarity"]


def test_whether_passages_are_retrieved_is_decided_by_the_parts(retriever):
    closed = Ensemble([build("cot"), build("standard")])
    open_ = Ensemble([build("cot"), nearest("a")])
    assert [retrieves(closed), retrieves(open_), retrieves(nearest("a"))] == [False, True, True]
    require_retriever(closed, None)
    with pytest.raises(UserError, match="name the folder of an index"):
        require_retriever(open_, None)


def test_the_route_without_retrieval_needs_no_index_and_says_that_contexts_are_not_used():
    closed = build("adaptive_rag", route="none")
    assert [retrieves(closed), retrieves(build("adaptive_rag"))] == [False, True]
    require_retriever(closed, None)
    config = SimpleNamespace(judge=None, contexts=object(), seed=0, scored=[])
    assert "adaptive_rag searches no corpus: the fixed contexts are not used." in run_notes(closed, None, [], config)


def test_the_description_of_a_program_depends_on_all_its_parts():
    described = [describe_program(program) for program in (nearest("a"), nearest("b"), nearest("a", k=3))]
    assert described[0] == describe_program(nearest("a"))
    assert described[0]["state_sha256"] != described[1]["state_sha256"]
    assert described[0]["children"]["program"]["knobs"] != described[2]["children"]["program"]["knobs"]
    assert "children" not in describe_program(build("rag"))
    both = [describe_program(Ensemble([build("cot"), nearest(answer)])) for answer in "ab"]
    assert both[0] != both[1]


def test_an_artifact_that_chooses_demonstrations_is_opened_with_a_similarity(retriever, tmp_path, monkeypatch):
    freeze(Ensemble([nearest("a", retriever), build("cot", retriever)]), tmp_path / "a")
    opened = []
    monkeypatch.setattr("experiments.pipeline.setup.open_similarity", lambda: opened.append(1) or Zero())
    lm = SimpleNamespace(model="m")
    adapter = ChatForm()
    connection = SimpleNamespace(id="m", weights_hash=None, lm=lm, adapter=adapter, probability_mode="samples")
    program = open_program(ProgramSpec(artifact=tmp_path / "a"), retriever, connection)
    assert isinstance(program.programs[0].similarity, Zero)
    assert opened == [1]
    freeze(build("cot"), tmp_path / "b")
    open_program(ProgramSpec(artifact=tmp_path / "b"), None, connection)
    assert opened == [1]
