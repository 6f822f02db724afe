"""What a run has cost in all its sessions: failed questions and those that ended without a row are not forgotten."""

from pathlib import Path
from types import ModuleType
from typing import Any

import dspy

from experiments.analysis.summary import RunSummary
from experiments.runs.files import read_rows
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm


class Twice(dspy.Module):
    """Asks two questions, the second of which fails if the engine says so."""

    def __init__(self) -> None:
        super().__init__()
        self.read = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        for number in (1, 2):
            answer = self.read(question=f"{question} part {number}").answer
        return dspy.Prediction(answer=answer, response=answer, hops=[], passages=[], citations=[])

    def max_calls(self) -> int:
        return 2


def session(toy: ModuleType, folder: Path, before: Any = lambda prompt: None, **limits: int) -> RunSummary:
    class Uncounted(toy.Engine):  # type: ignore[name-defined,misc]
        def complete(self, request: Any) -> Any:
            before(request.messages[-1].text)
            from dspy.lm15 import Message, Response, Usage

            message = Message.assistant("[[ ## answer ## ]]\neven\n\n[[ ## completed ## ]]")
            usage = Usage(input_tokens=70, output_tokens=5)
            return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    lm = metered_lm("local/m", engine=Uncounted(), cache=False, temperature=0.0, max_tokens=64, budget=Budget(**limits))
    link = toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False))
    return toy.run(
        Twice(), toy.questions(4), connection=link, metrics=["em"], folder=folder, threads=1, resume=folder.exists()
    )


def fail_on(word: str) -> Any:
    def before(prompt: str) -> None:
        if word in prompt:
            raise RuntimeError("no answer")

    return before


def test_a_question_asked_again_counts_twice(toy, tmp_path):
    first = session(toy, tmp_path / "run", fail_on("q2 part 2"))
    assert (first.errors, first.spent["calls"], first.spent["prompt_tokens"]) == (1, 8, 7 * 70)
    both = session(toy, tmp_path / "run")
    assert (both.errors, both.answered) == (0, 4)
    assert (both.spent["calls"], both.spent["prompt_tokens"], both.spent["completion_tokens"]) == (10, 9 * 70, 9 * 5)
    assert sum(row["calls"] for row in read_rows(tmp_path / "run")) == 8


def test_a_question_that_a_budget_ended_is_in_the_total(toy, tmp_path):
    first = session(toy, tmp_path / "run", calls=5)
    assert (first.answered, first.spent["calls"]) == (2, 5)
    assert session(toy, tmp_path / "run").spent["calls"] == 5 + 4


def test_the_table_shows_the_total(toy, tmp_path, capsys):
    from rich.console import Console

    Console(width=120).print(session(toy, tmp_path / "run").as_table())
    said = capsys.readouterr().out
    assert "paid calls in total" in said
    assert "repeated calls" not in said
