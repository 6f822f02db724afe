"""Decomposition: the next sub-question, the next query, and the answer that follows from answered hops."""

import re
from dataclasses import dataclass

from experiments.world.grammar import (
    Fact,
    Plan,
    facts_of,
    key,
    next_missing_fact,
    parse_question,
    render_question,
    value_of,
)
from experiments.world.passage_text import parse_sentences, title_of
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.relations import BY_NAME, RELATIONS
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop, single_fact
from experiments.world.skills.reading import Reader

_HOP = re.compile(r'^\d+\. (?P<question>.+?)(?: \(evidence: ".*"\))? -> (?P<answer>.*)$')


def parse_hops(text: str) -> dict[tuple[str, str], str]:
    """Return the answers of a prompt's hops: (key of entity, relation name) -> answer; later hops win."""
    answers: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        match = _HOP.match(line.strip())
        plan = parse_question(match["question"]) if match else None
        if match and isinstance(plan, Fact):
            entity = value_of(plan.of, lambda head, relation: answers.get((key(head), relation)))
            if entity:
                answers[key(entity), plan.relation] = match["answer"].strip()
    return answers


@dataclass(frozen=True)
class NextHop:
    """The next sub-question with its answer from memory, or the answer to the original question."""

    finished: bool
    sub_question: str
    answer: str


def next_hop(state: PromptState, question: str, plan: Plan | None) -> NextHop:
    """Return the next hop toward a question after the answered hops of the prompt."""
    if plan is None:
        return NextHop(True, question, UNKNOWN)
    missing = next_missing_fact(plan, lambda entity, relation: state.hop_answers.get((key(entity), relation)))
    too_early = bool(state.hop_answers) and state.draws.happens(state.dials.reasoning_premature_finish, "premature")
    if missing is None or too_early or key(missing[0]) == UNKNOWN:
        return NextHop(True, "", answer_from_hops(state, plan))
    entity, relation = missing
    if state.draws.happens(state.dials.reasoning_bad_step, "bad step"):
        relation = _other_relation(state, entity, relation)
    recalled = state.recall(entity, relation)
    return NextHop(False, _sub_question(state, entity, relation), recalled.value if recalled else UNKNOWN)


def answer_from_hops(state: PromptState, plan: Plan) -> str:
    """Return the answer from the answered hops, supplemented from memory."""
    return state.solve(plan, lambda entity, relation: _from_hops_or_memory(state, entity, relation))[0]


def next_query(state: PromptState, inputs: PromptInputs, *, last: bool = False) -> str:
    """Return a query for the first fact that answered hops, passages and listed facts do not state.

    If all are stated, the query is for the first fact that the reasoning in the prompt puts in doubt, and else the
    question itself.

    Args:
        state: The LM's state.
        inputs: The inputs of the prompt.
        last: If no fact is missing or in doubt, query the last fact instead of repeating the question.
    """
    if inputs.plan is None or state.draws.happens(state.dials.reasoning_vague_query, "vague"):
        return inputs.question
    reader = Reader(state, inputs.passages, inputs.listed_facts, recalls=False)
    hops: list[SolvedHop] = []
    for fact in facts_of(inputs.plan):
        values = {(hop.entity, hop.relation): hop.value for hop in hops}
        entity = value_of(fact.of, lambda *names, values=values: values.get(names))
        hop = reader.find(entity, fact.relation) if entity else None
        if entity and hop is None:
            return _sub_question(state, entity, fact.relation)
        if hop:
            hops.append(hop)
    target = _disputed_hop(inputs, hops) or (hops[-1] if last else None)
    return _sub_question(state, target.entity, target.relation) if target else inputs.question


def _disputed_hop(inputs: PromptInputs, hops: list[SolvedHop]) -> SolvedHop | None:
    """Return the first hop that the prompt's reasoning contradicts, or else that no passage about its entity states.

    None if the prompt contains no reasoning.
    """
    if "reasoning" not in inputs.texts:
        return None
    reasoned = {(key(item.head), item.relation): item.value for item, _ in parse_sentences(inputs.texts["reasoning"])}
    contradicted = [
        hop for hop in hops if key(reasoned.get((key(hop.entity), hop.relation), hop.value)) != key(hop.value)
    ]
    titles = {key(title_of(passage)) for passage in inputs.passages}
    return next(iter([*contradicted, *(hop for hop in hops if key(hop.entity) not in titles)]), None)


def all_sub_questions(state: PromptState, plan: Plan | None, question: str) -> list[str]:
    """Return every sub-question of a plan in order; each is answered from memory to name the next one's entity."""
    if plan is None:
        return [question]
    hops = state.solve(plan, lambda entity, relation: _from_hops_or_memory(state, entity, relation))[1]
    return [_sub_question(state, hop.entity, hop.relation) for hop in hops] or [question]


def _from_hops_or_memory(state: PromptState, entity: str, relation: str) -> SolvedHop | None:
    value = state.hop_answers.get((key(entity), relation))
    if value is not None and key(value) != UNKNOWN:
        return SolvedHop(entity, relation, value, in_prompt=True)
    return state.recall(entity, relation)


def _sub_question(state: PromptState, entity: str, relation: str) -> str:
    return render_question(
        single_fact(entity, relation), lambda options: state.draws.choose(options, "phrasing", entity, relation)
    )


def _other_relation(state: PromptState, entity: str, relation: str) -> str:
    """Return another relation of the entity that no hop has answered; the same one if there is none."""
    heads = set(BY_NAME[relation].heads)
    others = [
        other.name
        for other in RELATIONS
        if heads & set(other.heads) and other.name != relation and (key(entity), other.name) not in state.hop_answers
    ]
    return state.draws.choose(others, "another") if others else relation
