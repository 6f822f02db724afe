"""A task in which one word in the instruction is known to help, and a prompt LM that writes that word."""

import uuid
from pathlib import Path

import dspy
import pytest

from optimizers.teleprompters.task import Task
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from tests.conftest import ScriptedEngine, load_module

SMALLEST = load_module(Path(__file__).with_name("smallest.py")).SMALLEST


def examples(number, start=0, **fields):
    return [
        dspy.Example(id=f"q{n}", question=f"Question {n}?", answer="right", answers=["right"], **fields).with_inputs(
            "question"
        )
        for n in range(start, start + number)
    ]


def score(example, prediction):
    return float(prediction.answer == "right")


def number_of(user):
    return int(user.split("[[ ## question ## ]]\n")[-1].split("?")[0].split()[-1])


def answers(system, user):
    """Answer every third question rightly, and all of them if the instruction says MAGIC."""
    right = "MAGIC" in system or number_of(user) % 3 == 0
    return {
        "finished": "1. " in user, "sub_question": f"Sub of {number_of(user)}", "evidence": "",
        "answer": "right" if right else "wrong",
    }  # fmt: skip


class Writer:
    """Writes instructions: the first calls without the word that helps, the later ones with it."""

    def __init__(self, first_good=0):
        self.calls, self.first_good = 0, first_good

    def __call__(self, system, user):
        self.calls += 1
        text = f"Advice {self.calls}." + (" MAGIC." if self.calls > self.first_good else "")
        fields = (
            "proposed_instruction", "new_instruction", "natural_language_rules", "reasoning", "observations",
            "summary", "program_description", "module_description", "discussion",
        )  # fmt: skip
        names = [name for name in ("reading", "deduction", "grounding", "conclusion") if name in user]
        return {**dict.fromkeys(fields, text), "module_advice": dict.fromkeys(names, text)}


class SamplingEngine(ScriptedEngine):
    """Every other sample at a temperature of 1 is right, as SIMBA needs: it learns from answers that vary."""

    def complete(self, request):
        if request.config.temperature != 1.0 or not (request.config.seed or 0) % 2:
            return super().complete(request)
        magic = ScriptedEngine(lambda system, user: self.reply(f"{system} MAGIC", user))
        self.requests.append(request)
        return magic.complete(request)


class World:
    """Task LM and prompt LM, each with its own engine that counts."""

    def __init__(self, reply=answers, writer=None, budget=None, cache=True):
        self.task_engine, self.prompt_engine = SamplingEngine(reply), ScriptedEngine(writer or Writer())
        name = uuid.uuid4()
        self.lm = metered_lm(f"scripted/{name}", engine=self.task_engine, cache=cache, budget=budget)
        self.prompt_lm = metered_lm(f"scripted/prompt-{name}", engine=self.prompt_engine, cache=cache, budget=budget)
        self.runs = 0

    def ran(self):
        self.runs += 1

    def task(self, optimizer=None, **fields):
        options = SMALLEST.get(optimizer, {})
        given = {"trainset": examples(6), "valset": examples(6, 100), "score": score, "options": options, "threads": 2}
        return Task(**{**given, "prompt_lm": self.prompt_lm, "on_run": self.ran, **fields})

    def context(self):
        return dspy.context(lm=self.lm, adapter=JsonForm(), disable_history=True)


@pytest.fixture
def world():
    return World


@pytest.fixture
def make_examples():
    return examples


@pytest.fixture
def writer():
    return Writer
