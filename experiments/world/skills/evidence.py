"""Single pieces of evidence: what follows from passages, what contributes, and which claims concern a question."""

import re
from collections.abc import Iterator

from experiments.world.grammar import Fact, Name, Plan, facts_of, key, parse_question, value_of
from experiments.world.passage_text import Statement, parse_sentences
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop
from experiments.world.skills.statements import (
    Source,
    best_supported,
    parse_sources,
    statements_about,
    statements_of_relation,
)

_REFUSAL = re.compile(
    r"\b(?:unknown|unclear|undecided|no answer|not (?:known|clear|stated|mentioned|given))\b"
    r"|\b(?:can ?not|can't|unable to)\b|\(none\)|^(?:certainly|sure|of course)!",
    re.IGNORECASE,
)


def named_entities(plan: Plan | None) -> list[str]:
    """Return the names in a question, in order."""
    names = [fact.of.text for fact in facts_of(plan) if isinstance(fact.of, Name)] if plan else []
    return list(dict.fromkeys(names))


def draw_inferences(state: PromptState, inputs: PromptInputs) -> list[str]:
    """Return what passages state of the prompt's entities, and of those reached from them, as the question needs it.

    Each inference is one sentence. With the probability `inferring.wrong` one does not follow: it puts another
    entity's value on the entity, or a remembered one. With `inferring.surplus` what else passages state of an entity is
    inferred, too, mostly after what is needed.
    """
    if inputs.plan is None:
        return []
    sources = parse_sources(inputs.passages)
    entities = {key(entity) for entity in inputs.entities or named_entities(inputs.plan)}
    inferred: dict[tuple[str, str], str] = {}
    sentences: list[str] = []
    for fact in facts_of(inputs.plan):
        entity = value_of(fact.of, lambda *names: inferred.get(names))
        if entity is None or (isinstance(fact.of, Name) and key(entity) not in entities):
            continue
        value = _inferred(state, sources, entity, fact.relation)
        if value is not None:
            inferred[entity, fact.relation] = value
            sentences.append(SolvedHop(entity, fact.relation, value).as_sentence())
    needed = list(dict.fromkeys(sentences))  # in the order of the hops, which is that of their use
    surplus = _surplus(state, sources, inferred, entities)
    if not surplus:
        return needed
    places = {sentence: state.draws.uniform("place", sentence) for sentence in surplus}
    places |= {sentence: state.draws.uniform("place", sentence) - 0.5 for sentence in needed}
    return sorted(places, key=lambda sentence: places[sentence])


def _surplus(
    state: PromptState, sources: list[Source], inferred: dict[tuple[str, str], str], entities: set[str]
) -> list[str]:
    """Return what passages state of the entities, named or reached, beside what was inferred as needed."""
    concerned = entities | {key(value) for value in inferred.values()}
    known = {(key(entity), relation) for entity, relation in inferred}
    stated = {
        (statement.head, statement.relation): statement.value
        for source in sources
        for statement in source.statements
        if key(statement.head) in concerned and (key(statement.head), statement.relation) not in known
    }
    chance = state.dials.inferring_surplus
    drawn = [fact for fact in stated if state.draws.happens(chance, "surplus", *fact)]
    return [SolvedHop(*fact, stated[fact]).as_sentence() for fact in drawn]


def _inferred(state: PromptState, sources: list[Source], entity: str, relation: str) -> str | None:
    label = (entity, relation)
    if not state.draws.happens(state.dials.inferring_wrong, "inference", *label):
        accepted = best_supported(sources, entity, relation)
        return accepted.statement.value if accepted else None
    silent = [source for source in sources if not statements_about([source], entity, relation)]
    rivals = statements_of_relation(silent, relation)
    if not rivals:
        return state.memory.remembered(entity, relation)
    return state.draws.choose(rivals, "rival", *label, weights=state.rival_weights(entity, rivals)).statement.value


def passages_contribute(state: PromptState, inputs: PromptInputs) -> bool | None:
    """Return whether the prompt's passages state a fact that the question or the query needs; None without either.

    The entity that an inner hop leads to is read from the passages themselves, from answered hops, or remembered.
    """
    plans = _plans(inputs)
    sources = parse_sources(inputs.passages)

    def lookup(entity: str, relation: str) -> str | None:
        accepted = best_supported(sources, entity, relation)
        hop_answer = state.hop_answers.get((key(entity), relation))
        return accepted.statement.value if accepted else hop_answer or state.memory.remembered(entity, relation)

    needed = [(value_of(fact.of, lookup), fact.relation) for plan in plans for fact in facts_of(plan)]
    return any(entity and statements_about(sources, entity, relation) for entity, relation in needed) if plans else None


def claim_is_relevant(inputs: PromptInputs) -> bool | None:
    """Return whether the prompt's claim is a fact that the question or the query needs; None without either.

    The entity of an inner hop that no earlier inference answers is open: a claim about any entity fits it.
    """
    plans = _plans(inputs)
    sources = parse_sources([], inputs.listed_facts)

    def lookup(entity: str, relation: str) -> str | None:
        accepted = best_supported(sources, entity, relation)
        return accepted.statement.value if accepted else None

    def fits(claim: Statement, fact: Fact) -> bool:
        entity = value_of(fact.of, lookup)
        return fact.relation == claim.relation and (entity is None or key(entity) == key(claim.head))

    claims = list(_claims(inputs))
    return any(fits(claim, fact) for claim in claims for plan in plans for fact in facts_of(plan)) if plans else None


def claim_is_stated(inputs: PromptInputs) -> bool:
    """Return whether a passage of the prompt states the claim, in any wording."""
    sources = parse_sources(inputs.passages)
    claims = list(_claims(inputs))
    return bool(claims) and all(
        key(claim.value)
        in {key(item.statement.value) for item in statements_about(sources, claim.head, claim.relation)}
        for claim in claims
    )


def is_definite(reply: str) -> bool:
    """Return whether a reply gives an answer, right or wrong, instead of saying that it has none."""
    return bool(reply.strip()) and not _REFUSAL.search(reply) and key(reply) != UNKNOWN


def _claims(inputs: PromptInputs) -> Iterator[Statement]:
    return (statement for statement, _ in parse_sentences(inputs.texts["claim"]))


def _plans(inputs: PromptInputs) -> list[Plan]:
    return [plan for plan in (inputs.plan, parse_question(inputs.texts.get("query", ""))) if plan]
