"""Runs in several processes give the rows, costs and errors of runs in one."""

import multiprocessing
import os
import signal
import threading
from typing import Any

import dspy
import pytest

from corpora.retrievers.embedder import Embedder
from experiments.pipeline.parallel.process_pool import Job, Worker, WorkerError, can_fork, processes_for
from experiments.runs.calls import spent
from experiments.runs.files import read_json, read_rows
from optimizers.metrics.catalog import Metric
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.control import current_control
from programs.lms.calls.metered import LMUnavailable, metered_lm
from signatures.common.errors import UserError, UserNotice

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system does not fork")

VARYING = ("seconds",)


def run(toy, folder, engine, n=12, **options) -> Any:
    options = {"threads": 4, "processes": 2, "metrics": ["em", "f1[hotpot]"], **options}
    connection = options.pop("connection", None) or toy.link(engine)
    return toy.run(options.pop("program", toy.Toy()), toy.questions(n), connection=connection, folder=folder, **options)


def rows(folder) -> dict[str, Any]:
    return {row["id"]: {name: row[name] for name in row if name not in VARYING} for row in read_rows(folder)}


def at(question: str, act) -> Any:
    """Return what an engine does before it answers a question."""
    return lambda prompt: act() if f"\n{question}\n" in prompt else None


def fail(error: BaseException) -> None:
    raise error


def test_rows_and_summary_are_those_of_one_process(toy, tmp_path):
    one = run(toy, tmp_path / "one", toy.Engine(), n=30, processes=1)
    two = run(toy, tmp_path / "two", toy.Engine(), n=30)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    assert len(rows(tmp_path / "two")) == 30
    assert two.metrics == one.metrics
    assert two.costs["lm_calls"] == one.costs["lm_calls"]
    assert read_json(tmp_path / "two" / "run.json")["processes"] == 2


def test_all_processes_answer(toy, tmp_path):
    class Which(dspy.Module):
        def forward(self, question):
            return dspy.Prediction(answer=str(os.getpid()), passages=[], citations=[])

        def max_calls(self):
            return 0

    run(toy, tmp_path / "run", toy.Engine(), n=200, program=Which(), threads=3, processes=3)
    answers = {row["answer"] for row in read_rows(tmp_path / "run")}
    assert str(os.getpid()) not in answers
    assert 2 <= len(answers) <= 3  # a slow start of one may leave it without work


def test_more_processes_than_questions_are_not_started(toy, tmp_path):
    assert run(toy, tmp_path / "run", toy.Engine(), n=2, threads=8, processes=8).complete


def test_an_error_is_a_row_and_the_others_go_on(toy, tmp_path):
    summary = run(toy, tmp_path / "run", toy.Engine(at("q3", lambda: fail(RuntimeError("no answer")))))
    assert (summary.errors, len(read_rows(tmp_path / "run"))) == (1, 12)


def test_what_a_question_cost_that_the_budget_ended_is_counted(toy, tmp_path):
    class Two(toy.Toy):
        def forward(self, question):
            super().forward(question)
            raise BudgetExceeded("calls are used up")

    summary = run(toy, tmp_path / "run", toy.Engine(), n=1, program=Two(), processes=1)
    assert "used up" in summary.stopped
    alone = spent(tmp_path / "run")
    run(toy, tmp_path / "both", toy.Engine(), n=2, threads=2, program=Two())
    assert alone["calls"] == 1
    assert spent(tmp_path / "both")["calls"] in (1, 2)  # the second may not have been started


def test_a_budget_is_shared_to_the_last_call_and_the_run_can_be_resumed(toy, tmp_path):
    def connection(budget):
        lm = metered_lm("local/scripted", engine=toy.Engine(), budget=budget, cache=False, temperature=0.0)
        return toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False))

    budget = Budget(calls=7)
    summary = run(toy, tmp_path / "run", None, connection=connection(budget))
    assert "budget of 7 calls is used up" in summary.stopped
    assert budget.spent["calls"] == 7
    assert len(read_rows(tmp_path / "run")) == 7
    resumed = run(toy, tmp_path / "run", None, connection=connection(Budget(calls=5)), resume=True)
    assert (resumed.complete, resumed.stopped) == (True, None)


def test_ctrl_c_keeps_rows_counts_what_was_in_progress_and_can_be_resumed(toy, tmp_path, monkeypatch):
    for module in ("experiments.pipeline.parallel.session", "programs.lms.calls.control"):
        monkeypatch.setattr(f"{module}.GRACE", 0.2)
    never, press = threading.Event(), True

    class Pressing(toy.Toy):
        def forward(self, question):
            first = super().forward(question)
            if question == "q5" and press:  # has cost one call
                os.kill(os.getppid(), signal.SIGINT)
                never.wait(30)
            return first

    with pytest.raises(KeyboardInterrupt):
        run(toy, tmp_path / "run", toy.Engine(), n=200, program=Pressing())
    kept = read_rows(tmp_path / "run")
    assert 0 < len(kept) < 200
    assert "id5" not in {row["id"] for row in kept}
    assert read_json(tmp_path / "run" / "summary.json")["stopped"] == "interrupted by Ctrl-C"
    assert spent(tmp_path / "run")["calls"] == len(kept) + 1
    press = False
    assert run(toy, tmp_path / "run", toy.Engine(), n=200, program=Pressing(), resume=True).complete


def test_a_killed_worker_is_one_line_and_the_rows_before_it_are_kept(toy, tmp_path):
    with pytest.raises(UserError, match=r"worker process ended unexpectedly: signal 9 .*memory"):
        run(toy, tmp_path / "run", toy.Engine(at("q150", lambda: os.kill(os.getpid(), signal.SIGKILL))), n=200)
    assert len(read_rows(tmp_path / "run")) > 0
    assert run(toy, tmp_path / "run", toy.Engine(), n=200, resume=True).complete


def test_an_lm_that_never_answers_aborts_the_run_without_rows(toy, tmp_path):
    def down(prompt):
        raise LMUnavailable("LM m does not answer: refused.", "local/scripted")

    with pytest.raises(LMUnavailable, match="does not answer"):
        run(toy, tmp_path / "run", toy.Engine(down), n=40)
    assert not (tmp_path / "run").exists()


def test_a_metric_that_cannot_score_is_raised_with_its_traceback(toy, tmp_path):
    def broken(example, prediction):
        raise ZeroDivisionError("no")

    with pytest.raises(WorkerError, match=r"in broken[\s\S]*ZeroDivisionError: no"):
        run(toy, tmp_path / "run", toy.Engine(), metrics=[Metric("broken", "Broken.", broken, "https://x")])


def test_what_cannot_be_loaded_is_said_once(toy, tmp_path):
    class Retriever:
        def load(self):
            raise UserError("The index is damaged: build it again.")

    program = toy.Toy()
    program.retrieve = Retriever()
    with pytest.raises(UserError, match="The index is damaged"):
        run(toy, tmp_path / "run", toy.Engine(), program=program)
    assert not (tmp_path / "run").exists()


def test_notices_of_workers_reach_the_user(toy, tmp_path, capsys):
    import warnings

    def tell():
        warnings.warn(UserNotice("seed is left out"), stacklevel=1)
        current_control().notice("The LM server limits the rate.")

    with pytest.warns(UserNotice, match="seed is left out"):
        run(toy, tmp_path / "run", toy.Engine(at("q3", tell)), progress=True)
    assert "The LM server limits the rate." in capsys.readouterr().err


@pytest.mark.slow
def test_questions_are_prefetched_ahead_of_their_retrieval(toy, tmp_path):
    seen, lock, log = [], threading.Lock(), tmp_path / "log"

    class Retriever:
        def prefetch(self, queries):
            with lock, log.open("a") as file:
                file.write("".join(f"{query}\n" for query in queries))

    program = toy.Toy()
    program.retrieve = Retriever()
    for processes in (1, 2):
        log.unlink(missing_ok=True)
        run(toy, tmp_path / str(processes), toy.Engine(), n=300, program=program, processes=processes)
        seen = log.read_text().split()
        assert len(seen) == len(set(seen)) >= 32
        assert set(seen) <= {f"q{number}" for number in range(300)}


class Remote:
    """Stands in for a connection to a server, or to a model in this process."""

    def __init__(self, remote):
        self.lm = self
        self.remote = remote


@pytest.mark.usefixtures("no_model_opened")
@pytest.mark.parametrize(
    ("threads", "questions", "remote", "judge", "local_models", "expected"),
    [
        (64, 1000, True, None, False, 4),
        (16, 1000, True, None, False, 2),
        (8, 1000, True, None, False, 1),
        (64, 120, True, None, False, 2),
        (64, 10, True, None, False, 1),
        (64, 1000, False, None, False, 1),
        (64, 1000, True, False, False, 1),
        (64, 1000, True, True, False, 4),
        (64, 1000, True, None, True, 1),
    ],
)
def test_the_default_is_one_process_per_core_where_it_helps(
    threads, questions, remote, judge, local_models, expected, monkeypatch
):
    monkeypatch.setattr("experiments.pipeline.parallel.process_pool._cores", lambda: 4)
    judges = None if judge is None else Remote(judge)
    options = {"threads": threads, "questions": questions, "judge": judges, "local_models": local_models}
    assert processes_for(None, connection=Remote(remote), **options) == expected


@pytest.mark.usefixtures("no_model_opened")
def test_a_number_that_cannot_be_is_refused(monkeypatch):
    options = {"questions": 100, "connection": Remote(True)}
    assert processes_for(3, threads=3, **options) == 3
    with pytest.raises(UserError, match=r"threads \(3\) must be at least processes \(4\)"):
        processes_for(4, threads=3, **options)
    monkeypatch.setattr("experiments.pipeline.parallel.process_pool.can_fork", lambda: False)
    with pytest.raises(UserError, match="processes must be 1, not 2, on this system"):
        processes_for(2, threads=3, **options)
    assert processes_for(None, threads=64, **options) == 1


def test_where_a_model_was_deleted_nothing_is_forked():
    """A fork that opens a model waits forever for threads of the deleted one, which OpenVINO keeps for the next."""
    options = {"threads": 64, "questions": 1000, "connection": Remote(True)}
    embedder = Embedder()
    embedder.load()
    del embedder
    with pytest.raises(UserError, match="processes must be 1, not 2, in a process in which a model has run"):
        processes_for(2, **options)
    assert processes_for(None, **options) == 1


def test_a_worker_ends_with_its_parent():
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    job = Job(*[lambda *_: None] * 7)

    def work():
        ours.close()
        Worker(theirs, job, [], 1).run(0)

    process = context.Process(target=work, daemon=True)
    process.start()
    theirs.close()
    ours.close()
    process.join(20)
    assert process.exitcode == 1


def test_libraries_use_one_core_per_call_while_many_threads_ask(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.parallel.process_pool._cores", lambda: 4)

    class Threads(dspy.Module):
        def forward(self, question):
            return dspy.Prediction(answer=os.environ.get("OMP_NUM_THREADS", "all"), passages=[], citations=[])

        def max_calls(self):
            return 0

    def asked(folder, *, threads, remote, processes=1):
        connection = toy.link(toy.Engine())
        connection.lm.remote = remote
        options = {"threads": threads, "processes": processes, "connection": connection, "n": 4}
        run(toy, tmp_path / folder, None, program=Threads(), **options)
        return {row["answer"] for row in read_rows(tmp_path / folder)}

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert asked("many", threads=8, remote=True) == {"1"}
    assert asked("forks", threads=8, remote=True, processes=2) == {"1"}
    assert asked("few", threads=3, remote=True) == {"all"}
    assert asked("local", threads=8, remote=False) == {"all"}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert asked("said", threads=8, remote=True) == {"3"}
    assert os.environ["OMP_NUM_THREADS"] == "3"
