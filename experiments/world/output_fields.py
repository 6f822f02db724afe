"""The values of the fields that a prompt asks for, computed by the skills.

A field's role follows from its name, its type, its description and the instruction; which program asks is unknown here.
"""

import re
from dataclasses import dataclass

from experiments.world.dials import Dials
from experiments.world.draws import Draws
from experiments.world.grammar import facts_of
from experiments.world.passage_text import stated_conclusion
from experiments.world.prompt import Prompt, RequestedField
from experiments.world.prompt_inputs import PromptInputs, parse_inputs
from experiments.world.reply import Value
from experiments.world.roles.history import answered_pairs, told_facts
from experiments.world.roles.recognise import output_role
from experiments.world.skills import (
    choosing,
    continuation,
    decomposition,
    evidence,
    judging,
    longform,
    numbers,
    verification,
)
from experiments.world.skills.memory import Memory
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop
from experiments.world.skills.reading import ground, read_answer

_EMPTY_IF = re.compile(r"\bempty (?:if|when|where|while|until|unless|as long as)\b", re.IGNORECASE)
# Of these an error in what was thought before is an error to find, not a premise.
_JUDGING = {"verdict", "score", "judgement", "revision"}


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
    def roles(self) -> set[str]:
        """The requested roles; in the one-word form a verdict."""
        return set(self.role_of.values()) or {"verdict"}

    @property
    def content(self) -> str:
        """What the random draws depend on: the inputs by role, and the skill asked for."""
        return f"{self.inputs.content}\x1e{sorted(self.roles)}"


def read_task(prompt: Prompt) -> Task:
    """Return what a prompt asks for."""
    # Reasoning goes with any task, under whatever name, so that it does not make another field one of several.
    named = [field for field in prompt.requested if output_role(field, "", alone=False) != "reasoning"]
    alone = len(named) == 1
    if alone and named[0].kind == "bool":  # asked for in one word by the project's forms, as a field by DSPy's own
        role_of = {named[0].name: "verdict"}
    else:
        role_of = {field.name: output_role(field, prompt.instruction, alone=alone) for field in named}
    reasoning = {field.name: "reasoning" for field in prompt.requested if field not in named}
    return Task(prompt, parse_inputs(prompt), {**reasoning, **role_of})


def compute_values(task: Task, memory: Memory, dials: Dials, draws: Draws) -> dict[str, Value]:
    """Return a value for every requested field; for the one-word form, P(yes) under "yes"."""
    inputs, roles = task.inputs, task.roles
    in_writing = bool(roles & {"reasoning", "response"})  # full sentences state the hops as reasoning does
    state = PromptState(
        memory,
        dials,
        draws,
        in_writing=in_writing,
        hop_answers=_found_before(inputs, roles),
        facts=len(list(facts_of(inputs.plan))) if inputs.plan else 1,
        rejected=inputs.rejected,
    )
    if task.prompt.form == "word":
        return {"yes": judging.p_yes(state, inputs)}
    values = _values(task, state)
    return {
        field.name: _as_type(field, task.role_of[field.name], task, state, values) for field in task.prompt.requested
    }


def _found_before(inputs: PromptInputs, roles: set[str]) -> dict[tuple[str, str], str]:
    """Return the answers that the prompt gives: those of its pairs, and, as premises of what follows, its thoughts.

    Thoughts are no premises of a judgement, nor of a query for what passages or listed facts lack.
    """
    before = inputs.found_before or ""
    about_evidence = "query" in roles and bool(inputs.passages or inputs.listed_facts)
    thoughts = {} if roles & _JUDGING or about_evidence else told_facts(before)
    return {**thoughts, **answered_pairs(before)}


def _values(task: Task, state: PromptState) -> dict[str, Value]:
    """Return a value for each requested role."""
    inputs, roles = task.inputs, task.roles
    next_hop = decomposition.next_hop(state, inputs)
    quote, answer, hops = _answer(inputs, roles, state, next_hop)
    values: dict[str, Value] = {
        "evidence": quote,
        "sub_question": next_hop.sub_question,
        "finished": next_hop.finished,
        "unfinished": not next_hop.finished,
        "answer": answer,
    }
    if "entities" in roles:
        values["entities"] = evidence.named_entities(inputs.plan)
    if "inferences" in roles:
        values["inferences"] = evidence.draw_inferences(state, inputs)
    if roles & {"query", "action", "option", "argument"}:
        values["query"] = list(decomposition.queries(state, inputs))
    if roles & {"sufficient", "missing"}:
        values |= _sufficiency(inputs, state)
    if "passage" in roles and inputs.plan:
        values["passage"] = [hop.as_sentence() for hop in state.solve(inputs.plan, state.recall)[1]]
    if "chain" in roles:
        values["chain"] = [f"{asked} -> {told}" for asked, told in decomposition.all_hops(state, inputs.plan)]
    if "sub_question" in roles and inputs.texts.get("claim"):
        checking = decomposition.checking_question(state, inputs.texts["claim"])
        values["sub_question"] = checking or inputs.question
    if "response" in roles and inputs.plan:
        values["response"], hops = longform.write_response(state, inputs.plan, inputs.passages)
        if values.get("sufficient") is False:
            values["response"] = inputs.refusal
    if roles & {"score", "judgement", "revision", "option"}:
        values |= verification.verify(state, inputs, scored="score" in roles)
    values |= _chosen(task, state, values)
    values |= _left_empty(task, values)
    values["reasoning"] = values["next_sentence"] = _reasoning(inputs, roles, state, hops, values)
    return values


def _left_empty(task: Task, values: dict[str, Value]) -> dict[str, Value]:
    """Return an empty answer or query, where a reply has both and the description of one says that it may be empty.

    While something is missing the query is given, and then the answer.
    """
    if not {"answer", "query"} <= task.roles:
        return {}
    unneeded = "query" if values["finished"] else "answer"
    may_be = any(
        _EMPTY_IF.search(field.note.description)
        for field in task.prompt.requested
        if task.role_of[field.name] == unneeded
    )
    return {unneeded: ""} if may_be else {}


def _answer(
    inputs: PromptInputs, roles: set[str], state: PromptState, next_hop: decomposition.NextHop
) -> tuple[str, str, list[SolvedHop]]:
    """Return evidence, answer and the hops to it, depending on the inputs and the requested roles."""
    if "sub_question" in roles:
        return "", next_hop.answer, []
    if inputs.plan is None:
        return "", inputs.draft or stated_conclusion(inputs.found_before or "") or UNKNOWN, []
    if "evidence" in roles:
        return ground(state, inputs.plan, inputs.passages, inputs.draft)
    if inputs.passages or inputs.listed_facts or inputs.offers_unknown:
        return "", *read_answer(
            state, inputs.plan, inputs.passages, inputs.listed_facts, offers_unknown=inputs.offers_unknown
        )
    concluded = stated_conclusion(inputs.found_before or "")
    if concluded is not None:
        return "", concluded, []
    if state.hop_answers:
        return "", decomposition.answer_from_hops(state, inputs.plan), []
    return "", *state.solve(inputs.plan, state.recall)


def _sufficiency(inputs: PromptInputs, state: PromptState) -> dict[str, Value]:
    """Return whether the passages suffice, and accordingly what they lack."""
    sufficient = judging.passages_suffice(state, inputs.plan, inputs.passages)
    lacking = [] if sufficient else decomposition.queries(state, inputs, last=True, vague=False)
    return {"sufficient": sufficient, "missing": list(lacking)}


def _chosen(task: Task, state: PromptState, values: dict[str, Value]) -> dict[str, Value]:
    """Return the chosen action with its argument, and the choice of each field with options under "option NAME"."""
    inputs, chosen = task.inputs, {}
    finished = bool(values["finished"])
    actions: list[str] = []
    for field in task.prompt.requested:
        if field.kind != "option":
            continue
        if values.get("judgement") in field.options:
            chosen[f"option {field.name}"] = values["judgement"]
        else:
            option = choosing.choose_option(state, inputs, field, finished=finished)
            chosen[f"option {field.name}"] = option
            actions += [action for action in [choosing.action_of(option)] if action]
    action = actions[0] if actions else choosing.FINISH if finished else choosing.SEARCH
    if task.roles & {"argument", "action"} or actions:
        query = values["query"][0] if isinstance(values.get("query"), list) and values["query"] else inputs.question  # type: ignore[index]
        arguments = {
            choosing.FINISH: values["answer"],
            choosing.LOOK_UP: continuation.words_to_look_up(state, inputs),
            choosing.SEARCH: query,
        }
        chosen["argument"] = arguments[action]
        chosen["action"] = f"{action}[{arguments[action]}]"
    return chosen


def _reasoning(
    inputs: PromptInputs, roles: set[str], state: PromptState, hops: list[SolvedHop], values: dict[str, Value]
) -> str:
    """Return the reasoning: the next sentence if thoughts so far are given, else all hops and what follows."""
    if "next_sentence" in roles or (inputs.found_before is not None and roles == {"reasoning"}):
        return continuation.next_sentence(state, inputs)
    sentences = " ".join(hop.as_sentence() for hop in hops)
    if roles & {"argument", "action", "option"} and not values["finished"]:
        return f"What is still missing: {_first(values.get('query', ''))}"
    if "answer" in roles and values["answer"]:
        return f"{sentences} So the answer is {values['answer']}.".strip()
    if "query" in roles:
        return f"What is still missing: {_first(values['query'])}"
    return sentences or "There is not much to go by."


def _as_type(field: RequestedField, role: str, task: Task, state: PromptState, values: dict[str, Value]) -> Value:
    """Return the value of a field in its type; a neutral one if the field has no known role."""
    inputs = task.inputs
    if field.kind == "bool":
        known = role in {"finished", "unfinished", "sufficient"}
        return bool(values[role]) if known else judging.p_yes(state, inputs, field) > 0.5
    if field.kind == "number":
        alone = len([name for name in task.role_of if task.role_of[name] != "reasoning"]) == 1
        return numbers.number_asked_for(state, inputs, field, values, alone=alone)
    if field.kind == "option":
        return values[f"option {field.name}"]
    if field.kind == "list":
        if role == "sub_question":
            asked = [question for question, _ in decomposition.all_hops(state, inputs.plan)]
            return (asked or [inputs.question])[: inputs.limit]
        value = values.get(role, "")
        return value[: inputs.limit] if isinstance(value, list) else [str(value)] if value else []
    value = values.get(role, UNKNOWN)
    if isinstance(value, list):
        return _first(value) if role == "query" else " ".join(value)
    return str(value)


def _first(value: Value) -> str:
    return (value[0] if value else "") if isinstance(value, list) else str(value)
