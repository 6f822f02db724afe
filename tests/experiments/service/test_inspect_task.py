"""A program as a task of Inspect: its scores are those of `verihop eval`, and solver and scorers stand alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import verihop
from signatures.common.errors import UserError

pytest.importorskip("inspect_ai", reason="needs the extra inspect")

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver

from experiments.service.inspect_task import answering, questions, scoring

ROOT = Path(__file__).parents[3]
METRICS = ["em", "f1[hotpot]", "passage_recall@5"]


@solver
def always():
    """A solver of somebody else."""

    async def solve(state, generate):
        state.output = ModelOutput.from_content("theirs", "The Ossa.")
        return state

    return solve


@pytest.fixture
def asked(world, tmp_path):
    """Return a file of four questions."""
    lines = (world / "questions.jsonl").read_text().splitlines()[:4]
    (tmp_path / "few.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "few.jsonl"


def run(task, tmp_path, **settings):
    (log,) = inspect_ai.eval(task, model="none", log_dir=str(tmp_path / "logs"), display="none", **settings)
    return log


def by_id(log, name):
    return {sample.id: sample.scores[name].value for sample in log.samples if name in (sample.scores or {})}


@pytest.mark.filterwarnings("ignore::signatures.common.errors.UserNotice")
def test_scores_and_costs_are_those_of_eval(asked, world, tmp_path):
    rag = verihop.load(program="rag", index=world / "index", lm="simulated")
    verihop.evaluate(rag, asked, tmp_path / "run", metrics=METRICS, progress=False)
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    task = questions(str(asked), program="rag", index=str(world / "index"), lm="simulated", metrics=METRICS)
    log = run(task, tmp_path)
    assert (log.status, log.results.completed_samples) == ("success", 4)
    for name in METRICS:
        assert by_id(log, name) == {row["id"]: row["scores"][name] for row in rows}
    rows = {row["id"]: row for row in rows}
    for sample in log.samples:
        row = rows[sample.id]
        assert (sample.output.completion, sample.target) == (row["answer"], row["answers"])
        assert sample.metadata["calls"] == row["calls"]
        assert sample.metadata.get("citations", []) == row["citations"]
    assert {score.name for score in log.results.scores} == set(METRICS)
    assert all({"mean", "stderr"} <= set(score.metrics) for score in log.results.scores)


def test_hops_are_in_the_log(asked, world, tmp_path):
    task = questions(str(asked), program="genground", index=str(world / "index"), lm="simulated", metrics="em")
    log = run(task, tmp_path, limit=1)
    assert log.samples[0].metadata["hops"][0]["question"]
    assert log.eval.task_args["program"] == "genground"


def test_an_artifact_knows_its_index(asked, world, tmp_path):
    verihop.freeze(verihop.load(program="rag", index=world / "index", lm="simulated"), tmp_path / "made")
    log = run(questions(str(asked), artifact=str(tmp_path / "made"), metrics="em,f1[hotpot]", split="dev"), tmp_path)
    splits = [json.loads(line)["split"] for line in asked.read_text().splitlines()]
    assert (log.status, len(log.samples)) == ("success", splits.count("dev"))


def test_a_question_without_the_gold_of_a_metric_has_no_score(tmp_path):
    (tmp_path / "open.jsonl").write_text(
        '{"id": "a", "question": "Who?"}\n{"id": "b", "question": "Who?", "answers": ["x"]}\n'
    )
    log = run(questions(str(tmp_path / "open.jsonl"), program="cot", lm="simulated", metrics="em"), tmp_path)
    assert set(by_id(log, "em")) == {"b"}


def test_our_scorers_score_what_any_solver_answers(tmp_path):
    task = Task(
        dataset=[Sample(input="Which river?", target=["Ossa", "Oss"], id="1")],
        solver=always(),
        scorer=[scoring("em"), scoring("f1[hotpot]")],
    )
    log = run(task, tmp_path)
    assert (by_id(log, "em"), by_id(log, "f1[hotpot]")) == ({"1": 1.0}, {"1": 1.0})


def test_our_solver_answers_the_samples_of_any_task(world, tmp_path):
    question = json.loads((world / "questions.jsonl").read_text().splitlines()[0])
    task = Task(
        dataset=[Sample(input=question["question"], target=question["answers"][0])],
        solver=answering(program="rag", index=str(world / "index"), lm="simulated"),
        scorer=includes(),
    )
    log = run(task, tmp_path)
    assert log.status == "success"
    assert log.samples[0].messages[-1].role == "assistant"


def test_a_spent_budget_costs_samples_and_not_the_evaluation(own_cache, asked, world, tmp_path):
    task = questions(
        str(asked), program="rag", index=str(world / "index"), lm="simulated", metrics="em", budget="calls=2"
    )
    log = run(task, tmp_path, fail_on_error=False, max_samples=1)
    errors = [sample.error.message for sample in log.samples if sample.error]
    assert (log.status, len(errors)) == ("success", 2)
    assert all("The budget of 2 calls is used up" in message for message in errors)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"metrics": "magic"}, "Unknown metric 'magic'"),
        ({"metrics": "acc[judge]"}, "decided by a judge LM"),
        ({"budget": "calls"}, "budget takes calls=NUMBER, tokens=NUMBER, usd=NUMBER, seconds=NUMBER, got 'calls'"),
        ({"budget": ["calls=2", "calls=3"]}, "budget sets calls twice"),
        ({"budget": "calls=1.5"}, "budget takes calls=NUMBER"),
        ({"budget": "usd=0"}, "budget usd must be above 0"),
        ({"program": "magic"}, "Unknown program 'magic'"),
        ({"program": None, "lm": "openai/m"}, "Name either a program or an artifact"),
        ({"split": "none"}, "No question has the split 'none'"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(asked, given, says):
    with pytest.raises(UserError, match=says):
        questions(str(asked), **{"program": "cot", "lm": "simulated", **given})


def test_a_program_that_cannot_be_opened_is_the_error_of_the_task(asked, tmp_path):
    log = run(questions(str(asked), program="rag", lm="simulated", metrics="em"), tmp_path)
    assert (log.status, "name the folder of an index" in log.error.message) == ("error", True)


@pytest.mark.slow
def test_the_command_of_inspect_runs_it(asked, world, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    task = f"{ROOT / 'experiments' / 'service' / 'inspect_task.py'}@questions"
    given = [f"questions={asked}", "program=rag", f"index={world / 'index'}", "lm=simulated", "metrics=em,f1[hotpot]"]
    words = [*("inspect", "eval", task, "--model", "none", "--log-dir", str(tmp_path / "logs"), "--display", "plain")]
    command = [str(Path(sys.executable).parent / words[0])] if (Path(sys.executable).parent / words[0]).exists() else []
    command = command or [sys.executable, "-c", "from inspect_ai._cli.main import main; main()"]
    ended = subprocess.run(
        [*command, *words[1:], *(word for each in given for word in ("-T", each))],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (log,) = (tmp_path / "logs").glob("*.eval")
    assert [score.name for score in inspect_ai.log.read_eval_log(str(log)).results.scores] == ["em", "f1[hotpot]"]
