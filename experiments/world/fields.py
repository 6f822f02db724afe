"""From what a prompt asks for to the skills that can give it.

A field's role is told by its name and kind, as a reader of the prompt would take it; no program is known here.
"""

import re
from dataclasses import dataclass

from experiments.world.chance import Dice
from experiments.world.dials import Dials
from experiments.world.grammar import Plan, parse_question
from experiments.world.prompt import Asked, Prompt
from experiments.world.reply import Value
from experiments.world.skills import judging, steps
from experiments.world.skills.memory import Memory
from experiments.world.skills.mind import UNKNOWN, Mind, Step
from experiments.world.skills.reading import ground, read_answer, split_passages

# The first role whose expression is found in a field's name is the field's.
_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reasoning", re.compile(r"reason|rationale|thought|explanation")),
    ("evidence", re.compile(r"evidence|quote|citation|cited")),
    ("query", re.compile(r"quer(?:y|ies)|search|keywords")),
    ("sub_question", re.compile(r"question|follow_?up")),
    ("finished", re.compile(r"finish|done|complete|settled")),
    ("answer", re.compile(r"answer|response|conclusion|result|draft")),
)
_ANSWER_INPUT = re.compile(r"answer|draft|candidate|prediction|claim")


@dataclass(frozen=True)
class _Task:
    """A prompt with its inputs told apart by their shape."""

    prompt: Prompt
    question: str
    plan: Plan | None
    passages: list[str]
    answers: list[str]
    roles: dict[str, str]

    @property
    def wanted(self) -> set[str]:
        return set(self.roles.values())


def fill(prompt: Prompt, memory: Memory, dials: Dials, dice: Dice) -> dict[str, Value]:
    """Return a value for every field asked for; for the one-word form, P(yes) under "yes"."""
    task = _task(prompt)
    settled: dict[tuple[str, str], str] = {}
    for text in prompt.inputs.values():
        settled |= steps.read_hops(text)
    written = "reasoning" in task.wanted
    mind = Mind(memory, dials, dice, demos=prompt.demos, written=written, settled=settled)
    if prompt.form == "word":
        return {"yes": _p_yes(task, mind)}
    step = steps.next_step(mind, task.question, task.plan)
    evidence, answer, taken = _answer(task, mind, step)
    given: dict[str, Value] = {
        "evidence": evidence,
        "query": steps.next_query(mind, task.question, task.plan, task.passages) if "query" in task.wanted else "",
        "sub_question": step.sub_question,
        "finished": step.finished,
        "answer": answer,
    }
    given["reasoning"] = _reasoning(taken, given, task.wanted)
    return {field.name: _cast(field, task, mind, given) for field in prompt.asked}


def _task(prompt: Prompt) -> _Task:
    texts = prompt.inputs
    # Where a narrower question stands beside the whole one, it is the one that is asked now.
    question = (
        texts.get("sub_question")
        or texts.get("question")
        or next((text for text in texts.values() if parse_question(text)), "")
    )
    passages = [passage for text in texts.values() for passage in split_passages(text)]
    answers = [text for name, text in texts.items() if _ANSWER_INPUT.search(name) and text and "\n" not in text]
    roles = {field.name: _role(field.name) for field in prompt.asked}
    return _Task(prompt, question, parse_question(question), passages, answers, roles)


def _role(name: str) -> str:
    return next((role for role, expression in _ROLES if expression.search(name)), "")


def _answer(task: _Task, mind: Mind, step: steps.NextStep) -> tuple[str, str, list[Step]]:
    """Return evidence, answer and the steps taken, by what the prompt gives and asks for."""
    draft = task.answers[0] if task.answers else None
    if "sub_question" in task.wanted:
        return "", step.answer, []
    if task.plan is None:
        return "", draft or UNKNOWN, []
    if "evidence" in task.wanted:
        return ground(mind, task.plan, task.passages, draft)
    if task.passages:
        return "", *read_answer(mind, task.plan, task.passages)
    if mind.settled:
        return "", steps.conclude(mind, task.plan), []
    return "", *mind.work_out(task.plan, mind.recall)


def _reasoning(taken: list[Step], given: dict[str, Value], wanted: set[str]) -> str:
    told = " ".join(step.told() for step in taken)
    if "answer" in wanted:
        return f"{told} So the answer is {given['answer']}.".strip()
    if "query" in wanted:
        return f"What is still missing: {given['query']}"
    return told or "There is not much to go by."


def _cast(field: Asked, task: _Task, mind: Mind, given: dict[str, Value]) -> Value:
    """Return the value of a field in its kind; a harmless one where the field means nothing to this LM."""
    role = task.roles[field.name]
    if field.kind == "bool":
        return bool(given["finished"]) if role == "finished" else _p_yes(task, mind) > 0.5
    if field.kind == "number":
        return round(_p_yes(task, mind), 2)
    if field.kind == "option":
        return mind.dice.choose(field.options, "option", field.name)
    if field.kind == "list":
        if role == "sub_question":
            return steps.all_sub_questions(mind, task.plan, task.question)
        return [str(given[role])] if given.get(role) else []
    return str(given.get(role, UNKNOWN))


def _p_yes(task: _Task, mind: Mind) -> float:
    truth = judging.supported(mind, task.prompt.instruction, task.plan, task.passages, task.answers)
    return judging.probability_of_yes(mind, truth)
