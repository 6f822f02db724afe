"""Examples, a metric, a similarity and scripted LMs for optimizers.

For those of instructions there is a task in which one word in the instruction is known to help.
"""

import json
import uuid
from pathlib import Path

import dspy
import numpy as np
from dspy.lm15 import Message, Response, TextPart, Usage

from optimizers.teleprompters.task import Task
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from tests.conftest import ScriptedEngine, load_module

SMALLEST = load_module(Path(__file__).parent / "instructions" / "smallest.py").SMALLEST


def examples(number, start=0, **fields):
    return [
        dspy.Example(id=f"q{n}", question=f"Question {n}?", answer="right", answers=["right"], **fields).with_inputs(
            "question"
        )
        for n in range(start, start + number)
    ]


def exact(example, prediction):
    return float(prediction.answer == "right")


class SharedWords:
    """The similarity of two texts is the share of words that they have in common."""

    fingerprint = "shared-words"

    def __call__(self, left, right):
        bags = [[set(text.lower().strip("?").split()) for text in texts] for texts in (left, right)]
        return np.array([[len(one & other) / len(one | other) for other in bags[1]] for one in bags[0]])

    def __deepcopy__(self, memo):
        return self


class Scripted:
    """An engine that counts; it answers right to even questions, and to all if the prompt shows a demonstration."""

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "logprobs", "top_logprobs")
    free = True

    def __init__(self):
        self.requests = []

    def __deepcopy__(self, memo):
        return self

    def complete(self, request):
        self.requests.append(request)
        text = request.messages[-1].text
        number = int(text.split("Question ")[1].split("?")[0])
        answer = "right" if number % 2 == 0 or len(request.messages) > 3 else "wrong"
        message = Message.assistant([TextPart(json.dumps({"answer": answer}))])
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


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
        given = {"trainset": examples(6), "valset": examples(6, 100), "score": exact, "options": options, "threads": 2}
        return Task(**{**given, "prompt_lm": self.prompt_lm, "on_run": self.ran, **fields})

    def context(self):
        return dspy.context(lm=self.lm, adapter=JsonForm(), disable_history=True)
