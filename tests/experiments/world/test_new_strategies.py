"""Strategies that the world has never seen, with names of their own, made here: it answers them sensibly.

Each is a few lines after the idea of a published strategy, and must beat answering from memory on bridge questions.
"""

from typing import Literal

import dspy
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import paired
from experiments.world.generate import generate
from programs.closed_book.standard import Standard
from programs.parts.prediction import try_predict
from signatures.text import normalize_answer
from signatures.types import Passage, Retriever

pytestmark = pytest.mark.slow

QUESTIONS = 120


class AskFurther(dspy.Signature):
    """Go on with the inquiry: is another simple question needed, and which?"""

    notebook: str = dspy.InputField(desc="follow-up questions and their intermediate answers so far")
    problem: str = dspy.InputField()
    more_needed: bool = dspy.OutputField()
    follow_up: str = dspy.OutputField(desc="the follow-up question, in full")


class ReadNote(dspy.Signature):
    """Answer briefly from the material."""

    material: list[Passage] = dspy.InputField()
    inquiry: str = dspy.InputField()
    intermediate_result: str = dspy.OutputField()


class Conclude(dspy.Signature):
    """Conclude from the notebook."""

    notebook: str = dspy.InputField(desc="follow-up questions and their intermediate answers")
    problem: str = dspy.InputField()
    final: str = dspy.OutputField(desc="the final answer, a short phrase")


class ThinkOn(dspy.Signature):
    """Write the next sentence of the chain of thought. End with "So the answer is ..."."""

    paragraphs: list[Passage] = dspy.InputField()
    problem: str = dspy.InputField()
    thoughts_so_far: str = dspy.InputField()
    continuation: str = dspy.OutputField(desc="one sentence")


class Act(dspy.Signature):
    """Think, then choose one of the actions and what to do it with."""

    problem: str = dspy.InputField()
    transcript: str = dspy.InputField(desc="thoughts, actions and observations so far")
    thought: str = dspy.OutputField()
    move: Literal["search", "lookup", "finish"] = dspy.OutputField()
    operand: str = dspy.OutputField(desc="what to search for or look up, or the answer")


class Propose(dspy.Signature):
    """Break the inquiry down into simple questions."""

    inquiry: str = dspy.InputField()
    plan: list[str] = dspy.OutputField(desc="sub-questions in order")


def self_ask(retrieve: Retriever, question: str) -> str:
    ask, read, conclude = dspy.Predict(AskFurther), dspy.Predict(ReadNote), dspy.Predict(Conclude)
    notebook = ""
    for _ in range(4):
        step = try_predict(ask, notebook=notebook, problem=question)
        if step is None or not step.more_needed:
            break
        note = try_predict(read, material=retrieve(step.follow_up, 3), inquiry=step.follow_up)
        notebook += f"Follow up: {step.follow_up}\nIntermediate answer: {note.intermediate_result if note else ''}\n"
    told = try_predict(conclude, notebook=notebook, problem=question)
    return told.final if told else ""


def ircot(retrieve: Retriever, question: str) -> str:
    think, read = dspy.Predict(ThinkOn), dspy.Predict(ReadNote)
    passages, thoughts = list(retrieve(question, 3)), ""
    for _ in range(4):
        step = try_predict(think, paragraphs=passages, problem=question, thoughts_so_far=thoughts)
        if step is None or "answer is" in step.continuation:
            break
        thoughts = f"{thoughts} {step.continuation}".strip()
        passages += [found for found in retrieve(step.continuation, 2) if found not in passages]
    told = try_predict(read, material=passages, inquiry=question)
    return told.intermediate_result if told else ""


def react(retrieve: Retriever, question: str) -> str:
    act, transcript = dspy.Predict(Act), ""
    for number in range(1, 6):
        step = try_predict(act, problem=question, transcript=transcript)
        if step is None:
            transcript += f"Action {number}: unreadable\n"
            continue
        if step.move == "finish":
            return step.operand
        found = enumerate(retrieve(step.operand, 2), 1)
        seen = "\n".join(f"[{place}] {item.title}: {item.text}" for place, item in found)
        transcript += f"Thought {number}: {step.thought}\nAction {number}: {step.move}[{step.operand}]\n{seen}\n"
    return ""


def plan_and_read(retrieve: Retriever, question: str) -> str:
    plan, read = dspy.Predict(Propose), dspy.Predict(ReadNote)
    proposed = try_predict(plan, inquiry=question)
    passages: list[Passage] = []
    for query in proposed.plan if proposed else [question]:
        passages += [found for found in retrieve(query, 2) if found not in passages]
    told = try_predict(read, material=passages, inquiry=question)
    return told.intermediate_result if told else ""


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> tuple[Retriever, list[Question]]:
    folder = tmp_path_factory.mktemp("world")
    passages, questions = generate(folder, questions=4 * QUESTIONS, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    bridges = [question for question in read_questions(questions) if question.type == "bridge-2"]
    return open_index(folder / "index"), bridges[:QUESTIONS]


def _right(answers: list[str], questions: list[Question]) -> list[float]:
    return [
        float(normalize_answer(answer) in map(normalize_answer, question.answers))
        for answer, question in zip(answers, questions, strict=True)
    ]


@pytest.mark.parametrize("strategy", [self_ask, ircot, react, plan_and_read])
def test_strategies_of_other_names_beat_the_closed_book_on_bridge_questions(running, benchmark, strategy):
    retrieve, questions = benchmark
    closed = Standard()
    with running():
        memory = _right([closed(question=question.question).answer for question in questions], questions)
        found = _right([strategy(retrieve, question.question) for question in questions], questions)
    assert paired(memory, found).low > 0, (sum(memory), sum(found))
