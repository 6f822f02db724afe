"""`verihop distill train` with a program that is asked on the weights of each measurement."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Message, Response, TextPart, Usage

from corpora.questions import Question, read_questions, select
from experiments.pipeline.progress import TrainingProgress
from experiments.pipeline.training.program_scores import ProgramScores
from experiments.runs.specs import ProgramSpec
from optimizers.distill.examples import Message as Turn
from optimizers.distill.examples import write_examples
from programs.lms.calls.reply_cache import cache_dir
from programs.lms.connect import connect
from programs.lms.embedded import EmbeddedEngine
from signatures.common.errors import UserError, UserNotice
from tests.tiny_llama import make_example, make_examples, write_servable_llama, write_tiny_llama

pytest.importorskip("peft", reason="the extra [train] is not installed")


@pytest.fixture(autouse=True)
def _short_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights end no reply before its limit."""
    monkeypatch.setattr("experiments.pipeline.training.program_scores.MAX_TOKENS", 24)


@pytest.fixture(scope="session")
def servable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("servable")
    write_servable_llama(folder)
    return folder


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    write_examples(tmp_path / "data" / "examples.jsonl", make_examples())
    return tmp_path / "data"


@pytest.fixture
def train(verihop: Any, servable: Path, examples: Path, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Return a function that trains two steps and returns (code, standard output, standard error)."""

    def run(*words: Any) -> tuple[int, str, str]:
        fixed = ("--max-steps", 2, "--metric-examples", 0, "--threads", 1, "-o", tmp_path / "out")
        result: tuple[int, str, str] = verihop("distill", "train", examples, "--base", servable, *fixed, *words)
        return result

    return run


@pytest.mark.slow
def test_a_program_is_asked_at_each_measurement(train, world, tmp_path):
    asked = ("--program", "rag", "--questions", world / "questions.jsonl", "--index", world / "index", "--limit", 2)
    code, shown, err = train(*asked, "--set", "k=1", "--evaluate-every", 2, "--keep-best", "program_f1")
    assert code == 0, err
    assert "program_em: 0.000" in shown
    made = json.loads((tmp_path / "out" / "training.json").read_text())
    assert [(one["step"], set(one["metrics"])) for one in made["validation"]] == [
        (step, {"program_em", "program_f1", "program_errors"}) for step in (0, 2)
    ]
    assert (made["evaluated"]["program"], made["evaluated"]["program_knobs"]["k"]) == ("rag", 1)
    assert (tmp_path / "out" / "best" / "adapter_model.safetensors").exists()
    assert not (cache_dir() / "openvino").exists() or list((cache_dir() / "openvino").glob("*-q8_0-*")) == []
    assert not (tmp_path / "out" / "checkpoint-0000002").exists()
    assert list((tmp_path / "out").glob(".measured-*")) == []


@pytest.mark.slow
def test_the_answers_are_those_of_the_weights(world, monkeypatch, tmp_path):
    questions = read_questions(world / "questions.jsonl")[:4]
    gold = {question.question: question.answers[0] for question in questions[:3]}
    asked: list[str] = []

    def complete(self: EmbeddedEngine, request: Any) -> Response:
        asked.append(self.source)
        text = str(request)
        answer = next((answer for question, answer in gold.items() if question in text), "nobody knows")
        message = Message.assistant([TextPart(json.dumps({"answer": answer}))])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=Usage())

    monkeypatch.setattr(EmbeddedEngine, "complete", complete)
    folder = tmp_path / "weights"
    write_servable_llama(folder)
    assert ProgramScores(ProgramSpec(program="standard"), questions)(folder)["program_em"] == 0.75
    assert set(asked) == {str(folder)}


def test_questions_that_are_trained_on_are_refused(train, world, examples, tmp_path):
    (first,) = select(read_questions(world / "questions.jsonl"), limit=1)
    question = first.question
    asks = make_example(0)
    asks = asks.model_copy(update={"messages": (*asks.messages[:-1], Turn(role="user", content=f"Q: {question}"))})
    write_examples(examples / "examples.jsonl", [asks, *make_examples()[1:]])
    code, _, err = train("--program", "standard", "--questions", world / "questions.jsonl", "--limit", 1, "--quiet")
    assert (code, "ask questions that the program would be scored on: 1 of them" in err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_questions_without_answers_are_refused():
    scores = ProgramScores(ProgramSpec(program="standard"), [Question(id="q", question="Who?", answers=[])])
    with pytest.raises(UserError, match="1 of 1 questions have no gold answer"):
        scores.open()


@pytest.mark.slow
def test_a_run_is_resumed_with_the_program_and_questions_it_was_started_with(train, world, tmp_path, monkeypatch):
    asked = ("--program", "standard", "--questions", world / "questions.jsonl", "--evaluate-every", 2, "--quiet")

    def interrupt(self: TrainingProgress, step: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingProgress, "add", interrupt)
        assert train(*asked, "--limit", 1)[0] == 130
    for changed, what in (
        ((*asked, "--limit", 2), "program_questions = "),
        ((*asked, "--limit", 1, "--program", "cot"), "program = 'standard', not 'cot'"),
        (("--evaluate-every", 2, "--quiet"), "program = 'standard', not None"),
    ):
        code, _, err = train(*changed, "--resume")
        assert (code, f"The checkpoint was written with {what}" in err) == (2, True), err
    assert train(*asked, "--limit", 1, "--resume")[0] == 0
    made = json.loads((tmp_path / "out" / "training.json").read_text())
    assert [one["step"] for one in made["validation"]] == [0, 2]


@pytest.mark.slow
def test_questions_that_end_in_an_error_are_told(world, tmp_path):
    write_servable_llama(tmp_path / "weights", positions=16)
    scores = ProgramScores(ProgramSpec(program="standard"), read_questions(world / "questions.jsonl")[:2])
    with pytest.warns(UserNotice, match="2 ended in an error and score 0, the first in .*context"):
        assert scores(tmp_path / "weights") == {"program_em": 0.0, "program_f1": 0.0, "program_errors": 1.0}


@pytest.mark.slow
def test_weights_that_were_measured_can_be_measured_and_connected_again(world, tmp_path):
    write_servable_llama(tmp_path / "weights")
    before = sorted(path.name for path in (tmp_path / "weights").iterdir())
    scores = ProgramScores(ProgramSpec(program="standard"), read_questions(world / "questions.jsonl")[:1])
    assert scores(tmp_path / "weights") == scores(tmp_path / "weights")
    assert sorted(path.name for path in (tmp_path / "weights").iterdir()) == before
    connection = connect(f"embedded:{tmp_path / 'weights'}", cache=False)
    connection.lm("Who?", max_tokens=8)
    connection.close()


MISTAKES = {
    "no questions": (["--program", "rag"], "name it and its questions: --program, --questions"),
    "no program": (["--preset", "small"], "name it and its questions: --program, --questions"),
    "a limit alone": (["--limit", 3], "name it and its questions: --program, --questions"),
    "the best of no program": (
        ["--keep-best", "program_f1", "--evaluate-every", 1],
        "name it and its questions: --program, --questions",
    ),
    "the worst by name": (
        ["--program", "rag", "--questions", "QUESTIONS", "--keep-best", "program_errors", "--evaluate-every", 1],
        "Unknown metric 'program_errors'. Choose from: loss, program_em, program_f1.",
    ),
    "no index": (["--program", "rag", "--questions", "QUESTIONS"], "name the folder of an index"),
    "no such program": (["--program", "glory", "--questions", "QUESTIONS"], "Unknown program 'glory'"),
    "no such file": (["--program", "rag", "--questions", "missing.jsonl"], "No file 'missing.jsonl'"),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_is_one_line_and_code_2(name, train, world, tmp_path):
    words, message = MISTAKES[name]
    code, shown, err = train(*(world / "questions.jsonl" if word == "QUESTIONS" else word for word in words), "--quiet")
    assert (code, shown, message in err, len(err.strip().splitlines())) == (2, "", True, 1), err
    assert not (tmp_path / "out").exists()


def test_weights_that_are_not_served_are_refused(verihop, world, examples, tmp_path):
    write_tiny_llama(tmp_path / "tiny")
    code, _, err = verihop("distill", "train", examples, "--base", tmp_path / "tiny", "-o", tmp_path / "out", "--quiet",
                           "--program", "standard", "--questions", world / "questions.jsonl")  # fmt: skip
    assert (code, "cannot be asked by a program: omit it, or train another LM" in err) == (2, True)
