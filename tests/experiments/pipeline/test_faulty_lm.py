"""A run on an LM that fails often: it goes on as long as the LM answers anything."""

import random
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest
from dspy.lm15 import ServerError

from experiments.runs.files import read_rows
from programs.lms.calls.metered import LMUnavailable, metered_lm
from programs.lms.calls.transport import Transport
from signatures.common.errors import UserError
from signatures.types import Passage

pytestmark = pytest.mark.usefixtures("no_waiting")


class Chatty(dspy.Module):
    """Asks five times, so that most questions fail when every third call does."""

    def __init__(self) -> None:
        super().__init__()
        self.read = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        for number in range(5):
            answer = self.read(question=f"{question} {number}").answer
        return dspy.Prediction(answer=answer, response=answer, hops=[], passages=[Passage(id="p", title="", text="")])

    def max_calls(self) -> int:
        return 5


def run(toy: ModuleType, folder: Path, before: Any, *, n: int = 40, threads: int = 16, retries: int = 0) -> Any:
    engine = toy.Engine(before)
    lm = metered_lm("faulty/m", engine=engine, cache=False, transport=Transport(retries=retries))
    link = toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False))
    return toy.run(
        Chatty(), toy.questions(n), connection=link, metrics=["em"], folder=folder, threads=threads, progress=False
    )


def failing(share: float, seed: int) -> Any:
    chance, lock = random.Random(seed), threading.Lock()

    def before(prompt: str) -> None:
        with lock:
            fails = chance.random() < share
        if fails:
            raise ServerError("500")

    return before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_faults_at_the_start_do_not_end_a_run_whose_lm_answers(toy, tmp_path, seed):
    summary = run(toy, tmp_path / "run", failing(0.3, seed))
    assert summary.answered == 40
    assert 0 < summary.errors <= 40
    assert all(row["error"] is None or "does not answer" in row["error"] for row in read_rows(tmp_path / "run"))


def test_a_question_that_fails_after_an_answered_call_is_a_row(toy, tmp_path):
    def before(prompt: str) -> None:
        if "q0 1" in prompt or "q1 1" in prompt or "q2 1" in prompt:
            raise ServerError("500")

    summary = run(toy, tmp_path / "run", before, threads=1)
    assert (summary.answered, summary.errors) == (40, 3)


def test_retries_answer_what_fails_now_and_then(toy, tmp_path):
    summary = run(toy, tmp_path / "run", failing(0.3, 0), retries=12)
    assert summary.errors == 0
    assert sum(row["retries"] for row in read_rows(tmp_path / "run")) > 20


def test_an_lm_that_never_answers_ends_the_run_at_the_first_question(toy, tmp_path):
    with pytest.raises(LMUnavailable):
        run(toy, tmp_path / "run", failing(1.0, 0))
    assert not (tmp_path / "run").exists()


def test_an_lm_that_answers_no_more_ends_the_run(toy, tmp_path):
    asked = iter(range(100_000))

    def before(prompt: str) -> None:
        if next(asked) >= 12:
            raise ServerError("gone")

    with pytest.raises(UserError, match="gone"):
        run(toy, tmp_path / "run", before, threads=1)
    assert len(read_rows(tmp_path / "run")) == 4  # the third was answered in part, the fourth not at all


def judged(toy: ModuleType, folder: Path, replies: Any) -> Any:
    """Run with a judge that answers by `replies`."""

    class Judge(toy.Engine):  # type: ignore[name-defined,misc]
        def complete(self, request: Any) -> Any:
            replies()
            return super().complete(request)

    lms = [metered_lm(f"{name}/m", engine=engine, cache=False, temperature=0.0, transport=Transport(retries=0))
           for name, engine in (("task", toy.Engine()), ("judge", Judge()))]  # fmt: skip
    task, judge = (toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False)) for lm in lms)
    return toy.run(toy.Toy(), toy.questions(20), connection=task, judge=judge, metrics=["em", "acc[judge]"],
                   folder=folder, threads=2, progress=False)  # fmt: skip


def test_a_judge_that_fails_now_and_then_leaves_rows_to_be_asked_again(toy, tmp_path):
    asked = iter(range(10_000))

    def replies() -> None:
        if next(asked) % 7 == 3:
            raise ServerError("500")

    summary = judged(toy, tmp_path / "run", replies)
    assert summary.answered == 20
    assert 0 < summary.errors < 20
    failed = [row for row in read_rows(tmp_path / "run") if row["error"]]
    assert all(row["scores"]["acc[judge]"] is None and row["answer"] == "even" for row in failed)


def test_a_judge_that_never_answers_ends_the_run(toy, tmp_path):
    def replies() -> None:
        raise ServerError("500")

    with pytest.raises(LMUnavailable, match="judge/m"):
        judged(toy, tmp_path / "run", replies)
