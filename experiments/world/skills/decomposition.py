"""Decomposition: the next sub-question, the queries for what is missing, and the answer from answered hops."""

from dataclasses import dataclass

from experiments.world.grammar import Plan, facts_of, key, next_missing_fact, render_question, value_of
from experiments.world.passage_text import parse_sentences, title_of
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.relations import BY_NAME, RELATIONS
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop, single_fact
from experiments.world.skills.reading import Reader


@dataclass(frozen=True)
class NextHop:
    """The next sub-question with its answer, or the question itself with its answer if none is left."""

    finished: bool
    sub_question: str
    answer: str


def next_hop(state: PromptState, inputs: PromptInputs) -> NextHop:
    """Return the next hop toward the question after those that hops, passages and lists of the prompt settle.

    Its answer is read from passages, if there are any, and else remembered.
    """
    plan = inputs.plan
    if plan is None:
        return NextHop(True, inputs.question, UNKNOWN)
    told = Reader(state, inputs.passages, inputs.listed_facts, recalls=False)

    def known(entity: str, relation: str) -> str | None:
        hop = told.find(entity, relation)
        return hop.value if hop else None

    missing = next_missing_fact(plan, known)
    too_early = bool(state.hop_answers) and state.draws.happens(state.dials.reasoning_premature_finish, "premature")
    if missing is None or too_early or key(missing[0]) == UNKNOWN:
        return NextHop(True, inputs.question, answer_from_hops(state, plan, inputs))
    entity, relation = missing
    if state.draws.happens(state.dials.reasoning_bad_step, "bad step"):
        relation = _other_relation(state, entity, relation)
    entity = state.late_entity(plan, entity, relation)
    found = Reader(state, inputs.passages, inputs.listed_facts).find(entity, relation)
    return NextHop(False, sub_question(state, entity, relation), found.value if found else UNKNOWN)


def answer_from_hops(state: PromptState, plan: Plan, inputs: PromptInputs | None = None) -> str:
    """Return the answer from the answered hops, supplemented from passages, if there are any, and memory."""
    if inputs and (inputs.passages or inputs.listed_facts):
        return state.solve(plan, Reader(state, inputs.passages, inputs.listed_facts).find)[0]
    return state.solve(plan, lambda entity, relation: _from_hops_or_memory(state, entity, relation))[0]


def queries(state: PromptState, inputs: PromptInputs, *, last: bool = False, vague: bool = True) -> list[str]:
    """Return a query for each fact that answered hops, passages and listed facts do not state, if its entity is known.

    If all are stated, the query is for the first fact that the reasoning in the prompt puts in doubt, and else the
    question itself.

    Args:
        state: The LM's state.
        inputs: The inputs of the prompt.
        last: If no fact is missing or in doubt, query the last fact instead of repeating the question.
        vague: Whether the query may repeat the question by mistake (`reasoning.vague_query`).
    """
    if inputs.plan is None or (vague and state.draws.happens(state.dials.reasoning_vague_query, "vague")):
        return [inputs.question]
    reader = Reader(state, inputs.passages, inputs.listed_facts, recalls=False)
    hops: list[SolvedHop] = []
    missing: list[str] = []
    for fact in facts_of(inputs.plan):
        values = {(hop.entity, hop.relation): hop.value for hop in hops}
        entity = value_of(fact.of, lambda *names, values=values: values.get(names))
        hop = reader.find(entity, fact.relation) if entity else None
        if hop:
            hops.append(hop)
        elif entity:
            missing.append(sub_question(state, state.late_entity(inputs.plan, entity, fact.relation), fact.relation))
    if missing:
        return list(dict.fromkeys(missing))
    target = _disputed_hop(inputs, hops) or (hops[-1] if last else None)
    if target is None:
        return [inputs.question]
    return [sub_question(state, state.late_entity(inputs.plan, target.entity, target.relation), target.relation)]


def _disputed_hop(inputs: PromptInputs, hops: list[SolvedHop]) -> SolvedHop | None:
    """Return the first hop that the prompt's reasoning contradicts, or else that no passage about its entity states.

    None if the prompt contains no reasoning.
    """
    if not inputs.texts.get("reasoning"):
        return None
    reasoned = {(key(item.head), item.relation): item.value for item, _ in parse_sentences(inputs.texts["reasoning"])}
    contradicted = [
        hop for hop in hops if key(reasoned.get((key(hop.entity), hop.relation), hop.value)) != key(hop.value)
    ]
    titles = {key(title_of(passage)) for passage in inputs.passages}
    return next(iter([*contradicted, *(hop for hop in hops if key(hop.entity) not in titles)]), None)


def all_hops(state: PromptState, plan: Plan | None) -> list[tuple[str, str]]:
    """Return every sub-question of a plan with its answer from hops or memory, which names the next one's entity."""
    if plan is None:
        return []
    hops = state.solve(plan, lambda entity, relation: _from_hops_or_memory(state, entity, relation))[1]
    return [(sub_question(state, hop.entity, hop.relation), hop.value) for hop in hops]


def checking_question(state: PromptState, claim: str) -> str | None:
    """Return the question that the first fact of a claim answers; None if it states none."""
    stated = next((statement for statement, _ in parse_sentences(claim)), None)
    return sub_question(state, stated.head, stated.relation) if stated else None


def _from_hops_or_memory(state: PromptState, entity: str, relation: str) -> SolvedHop | None:
    value = state.hop_answers.get((key(entity), relation))
    if value is not None and key(value) != UNKNOWN:
        return SolvedHop(entity, relation, value, in_prompt=True)
    return state.recall(entity, relation)


def sub_question(state: PromptState, entity: str, relation: str) -> str:
    """Return the question for one fact."""
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
