"""Answerers: one question, many at once, async callers, and hops as they settle."""

import asyncio
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dspy
import pytest

from programs.artifact import freeze
from programs.catalog import build
from programs.inference import Answerer
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.parts.meter import metered
from signatures.common.errors import UserError
from tests.programs.conftest import PATIENCE, question_in

ROOT = Path(__file__).parents[2]


def test_an_answerer_answers_as_its_program_does_and_leaves_the_settings_alone(connected, retriever):
    connection, program = connected(), build("multihop", retriever)
    with connection.use():
        expected = program(question="Who?")
    before = dspy.settings.lm
    prediction = Answerer(program, connection)("Who?")
    assert prediction.toDict() == expected.toDict()
    assert dspy.settings.lm is before


def test_fixed_passages_replace_the_retrieval(connected, passages):
    prediction = Answerer(build("rag"), connected())("Who?", passages[3:5])
    assert [passage.id for passage in prediction.passages] == ["p3", "p4"]


def test_answerers_with_different_lms_do_not_mix_in_threads(connected, retriever):
    def named(name):
        return connected(name, reply=lambda request: json.dumps({"answer": f"{name}: {question_in(request)}"}))

    answerers = {name: Answerer(build("rag", retriever), named(name)) for name in ("red", "blue")}
    jobs = [(name, f"q{number}") for number in range(20) for name in answerers]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda job: answerers[job[0]](job[1]).answer, jobs))
    assert answers == [f"{name}: {question}" for name, question in jobs]


def test_async_calls_run_at_once_and_do_not_block_the_event_loop(connected, retriever):
    together, arrived, released = threading.Barrier(12), threading.Event(), threading.Event()

    def hold(request):
        arrived.set()
        together.wait(PATIENCE)  # breaks unless all twelve are in flight
        assert released.wait(PATIENCE)  # set by the event loop

    async def ask():
        answerer = Answerer(build("rag", retriever), connected(hold=hold))
        tasks = [asyncio.create_task(answerer.acall(f"q{number}")) for number in range(12)]
        while not arrived.is_set():
            await asyncio.sleep(0)
        released.set()
        return [prediction.answer for prediction in await asyncio.gather(*tasks)]

    assert asyncio.run(ask()) == [f"answer to q{number}" for number in range(12)]


def test_async_calls_beyond_the_width_wait(connected, retriever):
    in_flight, most, lock = [0], [0], threading.Lock()

    def hold(request):
        with lock:
            in_flight[0] += 1
            most[0] = max(most[0], in_flight[0])
        threading.Event().wait(0.001)
        with lock:
            in_flight[0] -= 1

    async def ask():
        answerer = Answerer(build("rag", retriever), connected(hold=hold), width=2)
        return await asyncio.gather(*(answerer.acall(f"q{number}") for number in range(10)))

    assert len(asyncio.run(ask())) == 10
    assert most[0] <= 2


def test_a_program_that_is_async_itself_is_awaited(connected):
    class Native(dspy.Module):
        async def aforward(self, question):
            await asyncio.sleep(0)
            return dspy.Prediction(answer=f"{question} on {threading.current_thread().name}")

    prediction = asyncio.run(Answerer(Native(), connected()).acall("Who?"))
    assert prediction.answer == "Who? on MainThread"


def test_programs_that_are_async_themselves_wait_beyond_the_width(connected):
    in_flight, most = [0], [0]

    class Native(dspy.Module):
        async def aforward(self, question):
            in_flight[0] += 1
            most[0] = max(most[0], in_flight[0])
            for _ in range(3):
                await asyncio.sleep(0)
            in_flight[0] -= 1
            return dspy.Prediction(answer=question)

    async def ask():
        answerer = Answerer(Native(), connected(), width=2)
        return await asyncio.gather(*(answerer.acall(f"q{number}") for number in range(10)))

    assert [each.answer for each in asyncio.run(ask())] == [f"q{number}" for number in range(10)]
    assert most[0] == 2


def test_a_cancelled_task_leaves_nothing_running(connected, retriever, answering_threads):
    asked, released = threading.Event(), threading.Event()

    def hold(request):
        asked.set()
        released.wait(PATIENCE)

    connection = connected(hold=hold)

    async def ask():
        task = asyncio.create_task(Answerer(build("multihop", retriever), connection).acall("Who?"))
        await asyncio.to_thread(asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert answering_threads() == []  # though the server has not replied yet

    asyncio.run(ask())
    released.set()
    assert len(connection.lm.engine.requests) == 1  # of three


def test_a_cancelled_task_that_waits_for_a_thread_never_starts(connected, retriever):
    asked, released = threading.Event(), threading.Event()

    def hold(request):
        asked.set()
        released.wait(PATIENCE)

    connection = connected(hold=hold)

    async def ask():
        answerer = Answerer(build("rag", retriever), connection, width=1)
        first = asyncio.create_task(answerer.acall("first"))
        await asyncio.to_thread(asked.wait, PATIENCE)
        second = asyncio.create_task(answerer.acall("second"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        released.set()
        return (await first).answer

    assert asyncio.run(ask()) == "answer to first"
    assert [question_in(request) for request in connection.lm.engine.requests] == ["first"]


def test_a_batch_keeps_the_order_and_an_error_ends_its_own_question_alone(connected, retriever):
    def hold(request):
        if question_in(request) == "q3":
            raise UserError("the scripted LM refuses q3")

    with metered() as meter:
        answered = Answerer(build("rag", retriever), connected(hold=hold)).batch([f"q{n}" for n in range(6)], threads=3)
    assert [answer.question for answer in answered] == [f"q{n}" for n in range(6)]
    assert [answer.prediction and answer.prediction.answer for answer in answered] == [
        None if n == 3 else f"answer to q{n}" for n in range(6)
    ]
    assert "refuses q3" in answered[3].error
    assert isinstance(answered[3].cause, UserError)
    assert [answer.error is None for answer in answered].count(False) == 1
    assert answered[0].costs["calls"] == 1
    assert meter.calls == sum(answer.costs["calls"] for answer in answered)


def test_a_batch_stops_when_the_budget_is_used_up_and_keeps_what_it_has(connected, retriever):
    connection = connected(budget=Budget(calls=3))
    answered = Answerer(build("rag", retriever), connection).batch([f"q{n}" for n in range(8)], threads=2)
    done = [answer for answer in answered if answer.prediction]
    assert len(done) == len(connection.lm.engine.requests) == 3
    assert all(isinstance(answer.cause, BudgetExceeded) for answer in answered if not answer.prediction)
    assert all(answer.error.startswith("The budget of 3 calls is used up") for answer in answered if answer.error)
    assert len(answered) == 8
    with pytest.raises(BudgetExceeded):
        Answerer(build("rag", retriever), connection)("Who?")


def test_a_batch_can_have_fixed_passages(connected, passages, retriever):
    answerer = Answerer(build("rag", retriever, k=2), connected())
    given, retrieved = answerer.batch(["a", "b"], passages=[passages[5:6], None])
    assert [passage.id for passage in given.prediction.passages] == ["p5"]
    assert [passage.id for passage in retrieved.prediction.passages] == ["p0", "p1"]
    with pytest.raises(UserError, match="2 questions, and passages for 1"):
        answerer.batch(["a", "b"], passages=[None])


def test_no_question_no_answer(connected):
    assert Answerer(build("rag"), connected()).batch([]) == []


THREE_LINES = """
import sys
from programs.inference import Answerer
answerer = Answerer.load(sys.argv[1], connection=None)
assert answerer.connection.id == "embedded"
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"optuna", "corpora", "optimizers", "experiments", "torch", "transformers"}))
"""


@pytest.mark.parametrize("question", [None, "", " \n", 3, b"Who?"])
def test_what_is_no_question_costs_no_call(connected, retriever, question):
    class Native(dspy.Module):
        async def aforward(self, question):
            raise AssertionError("asked")

    connection = connected()
    answerer = Answerer(build("rag", retriever), connection)
    refused = "A question must be a text that is not blank, got "
    with metered() as meter:
        with pytest.raises(UserError, match=refused):
            answerer(question)
        with pytest.raises(UserError, match=refused):
            asyncio.run(answerer.acall(question))
        with pytest.raises(UserError, match=refused):
            asyncio.run(Answerer(Native(), connection).acall(question))
        with pytest.raises(UserError, match=refused):
            list(answerer.stream(question))
        (answered,) = answerer.batch([question])
    assert refused in answered.error
    assert meter.counts()["calls"] == 0


@pytest.mark.slow
def test_inference_imports_neither_optuna_nor_corpora_nor_experiments(tmp_path):
    freeze(build("rag", None, k=3), tmp_path / "artifact")
    command = [sys.executable, "-c", THREE_LINES, str(tmp_path / "artifact")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
