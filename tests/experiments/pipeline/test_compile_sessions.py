"""A search whose budget is spent several times: what is scored stays scored, and what is spent stays counted."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from corpora.questions import Question
from experiments.pipeline.compile import compile_program
from experiments.pipeline.compiling.checkpoint import CandidateLog
from experiments.pipeline.compiling.config import CompileConfig
from optimizers.metrics.catalog import get_metric
from programs.artifact import Artifact
from programs.lms.adapter import ChatForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.conftest import ListRetriever, ScriptedEngine

TRAIN = [Question(id=f"t{n}", question=f"Question {n}?", answers=["right"]) for n in range(4)]
VAL = [Question(id=f"v{n}", question=f"Question {n}?", answers=["right"]) for n in range(10, 14)]


def reply(system: str, user: str) -> str:
    number = int(user.split("Question ")[-1].split("?")[0])
    return f"[[ ## answer ## ]]\n{'wrong' if number % 2 else 'right'}\n\n[[ ## completed ## ]]"


@pytest.fixture
def compiled(tmp_path: Path, passages: Any) -> Any:
    """Return a function that searches with a budget of LM calls, by default without a cache of replies."""

    def run(
        calls: int | Budget | None = None,
        *,
        val: list[Question] = VAL,
        out: str = "a",
        cache: str | None = None,
        **options: Any,
    ) -> Artifact:
        budget = calls if isinstance(calls, Budget) else Budget(calls=calls)
        model, engine = f"scripted/{cache or 'a'}", ScriptedEngine(reply)
        lm = metered_lm(model, engine=engine, cache=cache is not None, budget=budget)
        config = CompileConfig(
            metric=get_metric("em"), optimizer="random_search", options={"candidates": 2}, threads=1, max_demos=2
        )
        link = Connection("scripted", lm, ChatForm(), None, "samples")
        options = {"connection": link, "out": tmp_path / out, "progress": False, **options}
        return compile_program(RAG(ListRetriever(passages)), TRAIN, val, config, **options)

    return run


def test_a_search_goes_on_with_larger_and_larger_budgets(compiled, tmp_path):
    whole = compiled(out="whole").optimizer
    labels = [each["label"] for each in whole["candidates"]]
    assert labels == ["uncompiled", "labeled", "bootstrap 0", "bootstrap 1"]
    spent = 15
    for session, (calls, scored) in enumerate([(3, 0), (9, 1), (spent, 2)]):
        made = compiled(calls, resume=session > 0).optimizer
        assert made["stopped"].startswith(f"The budget of {calls} calls is used up")
        assert [each["label"] for each in made["candidates"]] == labels[:scored]
        assert made["chosen"] == (None if not scored else "uncompiled")
        assert made["cost"]["calls"] == made["budget"]["calls"] == calls
    made = compiled(resume=True).optimizer
    assert made["stopped"] is None
    assert made["candidates"] == whole["candidates"]
    # Two candidates were scored in sessions before, so that the last one asked for two only, and the demonstrations.
    assert made["cost"]["calls"] == spent + whole["cost"]["calls"] - 2 * len(VAL)
    assert (tmp_path / "a" / "program.json").read_bytes() == (tmp_path / "whole" / "program.json").read_bytes()


def test_calls_that_the_cache_answers_again_count_once(compiled, tmp_path):
    whole = compiled(out="whole").optimizer
    cache = str(uuid.uuid4())
    assert len(compiled(6, cache=cache).optimizer["candidates"]) == 1
    (tmp_path / ".a.compiling" / "candidates.jsonl").unlink()  # as for candidates that only their optimizer can score
    made = compiled(resume=True, cache=cache).optimizer
    assert made["cost"]["cached_calls"] >= 6
    assert made["candidates"] == whole["candidates"]


def test_a_budget_is_one_of_all_sessions_together(compiled):
    first = compiled(6).optimizer
    again = compiled(6, resume=True).optimizer
    assert again["stopped"].startswith("The budget of 6 calls is used up (6 calls")
    assert again["cost"]["calls"] == first["cost"]["calls"] == 6
    assert again["candidates"] == first["candidates"]


def test_sessions_with_the_same_budget_object_count_once(compiled):
    budget = Budget(calls=6)
    compiled(budget)
    budget.limits["calls"] = 12
    assert compiled(budget, resume=True).optimizer["cost"]["calls"] == budget.spent["calls"] == 12


def test_a_spent_budget_does_not_forget_a_replacement_that_was_stopped(compiled, tmp_path):
    compiled()
    for resume in (False, True):
        with pytest.raises(BudgetExceeded, match="The budget of 3 calls is used up"):
            compiled(3, overwrite=True, resume=resume)
        costs = json.loads((tmp_path / ".a.compiling" / "costs.json").read_text())
        assert (costs["calls"], costs["budgets"]["lm"]["calls"]) == (3, 3)


def test_a_stopped_search_goes_on_with_the_same_questions_only(compiled):
    compiled(5)
    with pytest.raises(UserError, match="had another data.val"):
        compiled(resume=True, val=VAL[:3])


@pytest.mark.parametrize("changed", [{"answers": ["other"]}, {"question": "Another one?"}])
def test_changed_gold_or_words_of_a_question_are_other_questions(changed, compiled):
    compiled(9)
    val = [VAL[0].model_copy(update=changed), *VAL[1:]]
    with pytest.raises(UserError, match="had another data.val.sha256"):
        compiled(resume=True, val=val)
    compiled(resume=True)
    with pytest.raises(UserError, match="is of another request"):
        compiled(resume=True, val=val)


def test_the_scores_of_the_frozen_program_are_those_it_was_chosen_by(compiled):
    made = compiled()
    assert made.metric["scores"] == {"v10": 1.0, "v11": 0.0, "v12": 1.0, "v13": 0.0}
    assert (made.metric["mean"], made.metric["n"], made.metric["errors"]) == (0.5, 4, 0)
    unlabeled = [*VAL[:3], Question(id="v13", question="Question 13?")]
    assert compiled(val=unlabeled, out="b").metric["scores"]["v13"] is None


def test_damaged_candidates_are_skipped(compiled, passages, tmp_path):
    compiled(12)
    folder, student = tmp_path / ".a.compiling", RAG(ListRetriever(passages))
    path = folder / "candidates.jsonl"
    kept = CandidateLog(folder, student).read()
    assert list(kept) == ["uncompiled", "labeled"]
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], b'{"label": 1}', b"no JSON", lines[1][:-9]]))
    assert list(CandidateLog(folder, student).read()) == ["uncompiled"]
    assert compiled(resume=True).optimizer["stopped"] is None
