"""The values of the fields that a prompt asks for, computed by the skills.

A field's role follows from its name and type alone; which program asks is unknown here.
"""

import re
from dataclasses import dataclass

from experiments.world.dials import Dials
from experiments.world.draws import Draws
from experiments.world.prompt import Prompt, RequestedField
from experiments.world.prompt_inputs import PromptInputs, parse_inputs
from experiments.world.reply import Value
from experiments.world.skills import decomposition, evidence, judging, longform, verification
from experiments.world.skills.memory import Memory
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop
from experiments.world.skills.reading import ground, read_answer

# A field has the first role whose expression matches its name.
_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reasoning", re.compile(r"reason|rationale|thought|explanation")),
    ("evidence", re.compile(r"evidence|quote|citation|cited")),
    ("revision", re.compile(r"revis|rewrit|reword|rephras|reformul")),
    ("judgement", re.compile(r"judge?ment|verdict")),
    ("entities", re.compile(r"entit")),
    ("inferences", re.compile(r"inference")),
    ("query", re.compile(r"quer(?:y|ies)|search|keywords")),
    ("sub_question", re.compile(r"question|follow_?up")),
    ("sufficient", re.compile(r"suffic|enough")),
    ("finished", re.compile(r"finish|done|complete|settled")),
    ("response", re.compile(r"response")),
    ("answer", re.compile(r"answer|conclusion|result|draft")),
)


@dataclass(frozen=True)
class Task:
    """What a prompt asks for.

    Args:
        prompt: The prompt.
        inputs: Its inputs by role.
        role_of: The role of each requested field.
    """

    prompt: Prompt
    inputs: PromptInputs
    role_of: dict[str, str]

    @property
    def content(self) -> str:
        """What the random draws depend on: the inputs by role, and the skill asked for."""
        return f"{self.inputs.content}\x1e{sorted(set(self.role_of.values())) or self.prompt.form}"


def read_task(prompt: Prompt) -> Task:
    """Return what a prompt asks for."""
    return Task(prompt, parse_inputs(prompt), {field.name: _role(field) for field in prompt.requested})


def compute_values(task: Task, memory: Memory, dials: Dials, draws: Draws) -> dict[str, Value]:
    """Return a value for every requested field; for the one-word form, P(yes) under "yes"."""
    prompt, inputs, role_of = task.prompt, task.inputs, task.role_of
    roles = set(role_of.values())
    hop_answers: dict[tuple[str, str], str] = {}
    for text in prompt.blocks.values():
        hop_answers |= decomposition.parse_hops(text)
    in_writing = bool(roles & {"reasoning", "response"})  # full sentences state the hops as reasoning does
    state = PromptState(memory, dials, draws, in_writing=in_writing, hop_answers=hop_answers)
    if prompt.form == "word":
        return {"yes": judging.p_yes(state, inputs)}
    values = _values(inputs, roles, state)
    return {field.name: _as_type(field, role_of[field.name], inputs, state, values) for field in prompt.requested}


def _role(field: RequestedField) -> str:
    if field.kind == "number":
        return "score"
    return next((role for role, expression in _ROLES if expression.search(field.name)), "")


def _values(inputs: PromptInputs, roles: set[str], state: PromptState) -> dict[str, Value]:
    """Return a value for each requested role."""
    next_hop = decomposition.next_hop(state, inputs.question, inputs.plan)
    quote, answer, hops = _answer(inputs, roles, state, next_hop)
    values: dict[str, Value] = {
        "evidence": quote,
        "sub_question": next_hop.sub_question,
        "finished": next_hop.finished,
        "answer": answer,
    }
    if "entities" in roles:
        values["entities"] = evidence.named_entities(inputs.plan)
    if "inferences" in roles:
        values["inferences"] = evidence.draw_inferences(state, inputs)
    if "query" in roles:
        values["query"] = decomposition.next_query(state, inputs)
    if "sufficient" in roles:
        values["sufficient"] = judging.passages_suffice(state, inputs.plan, inputs.passages)
    if "response" in roles and inputs.plan:
        values["response"], hops = longform.write_response(state, inputs.plan, inputs.passages)
        if values.get("sufficient") is False:
            values["response"] = ""
    if roles & {"score", "judgement", "revision"}:
        values |= verification.verify(state, inputs, scored="score" in roles)
    values["reasoning"] = _reasoning(hops, values, roles)
    return values


def _answer(
    inputs: PromptInputs, roles: set[str], state: PromptState, next_hop: decomposition.NextHop
) -> tuple[str, str, list[SolvedHop]]:
    """Return evidence, answer and the hops to it, depending on the inputs and the requested roles."""
    if "sub_question" in roles:
        return "", next_hop.answer, []
    if inputs.plan is None:
        return "", inputs.draft or UNKNOWN, []
    if "evidence" in roles:
        return ground(state, inputs.plan, inputs.passages, inputs.draft)
    if inputs.passages or inputs.listed_facts or inputs.offers_unknown:
        return "", *read_answer(
            state, inputs.plan, inputs.passages, inputs.listed_facts, offers_unknown=inputs.offers_unknown
        )
    if state.hop_answers:
        return "", decomposition.answer_from_hops(state, inputs.plan), []
    return "", *state.solve(inputs.plan, state.recall)


def _reasoning(hops: list[SolvedHop], values: dict[str, Value], roles: set[str]) -> str:
    sentences = " ".join(hop.as_sentence() for hop in hops)
    if "answer" in roles:
        return f"{sentences} So the answer is {values['answer']}.".strip()
    if "query" in roles:
        return f"What is still missing: {values['query']}"
    return sentences or "There is not much to go by."


def _as_type(
    field: RequestedField, role: str, inputs: PromptInputs, state: PromptState, values: dict[str, Value]
) -> Value:
    """Return the value of a field in its type; a neutral one if the field has no known role."""
    if field.kind == "bool":
        return bool(values[role]) if role in {"finished", "sufficient"} else judging.p_yes(state, inputs) > 0.5
    if field.kind == "number":
        score = values.get(f"score {verification.score_name(field.name)}")
        return round(judging.p_yes(state, inputs), 2) if score is None else score
    if field.kind == "option":
        offered = values.get(role) in field.options
        return values[role] if offered else state.draws.choose(field.options, "option", role)
    if field.kind == "list":
        if role == "sub_question":
            return decomposition.all_sub_questions(state, inputs.plan, inputs.question)
        value = values.get(role, "")
        return value if isinstance(value, list) else [str(value)] if value else []
    return str(values.get(role, UNKNOWN))
