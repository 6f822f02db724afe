"""Yes/no judgements with a probability: mostly right, and overconfident."""

import re

from experiments.world.grammar import Comparison, Plan, facts_of, key, next_missing_fact, value_of
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.skills import evidence
from experiments.world.skills.decomposition import answer_from_hops
from experiments.world.skills.prompt_state import UNKNOWN, PromptState
from experiments.world.skills.reading import read_answer
from experiments.world.skills.statements import best_supported, parse_sources
from experiments.world.skills.verification import final_answer

# The words of an instruction that tell what is judged; README.md lists them.
_MEMORY = re.compile(r"\b(you know|from memory|own knowledge|without (?:searching|passages|references))\b", re.I)
_ENOUGH = re.compile(r"\b(enough|suffic\w+|suffice)\b", re.I)
_NEEDS_SEARCH = re.compile(
    r"\b(?:retriev|search|look)\w*\b[^.]*\b(?:need|necess|requir)|\b(?:need|necess|requir)\w*[^.]*\b(?:retriev|search)",
    re.I,
)
_COMMITS = re.compile(r"\bcannot be answered|\bcommits?\b|\brefus|\babstain|\bdeclin", re.I)


def p_yes(state: PromptState, inputs: PromptInputs) -> float:
    """Return P(yes) in (0, 1) for the judgement that a prompt asks for."""
    return noisy_probability(state, error_free_verdict(state, inputs))


def error_free_verdict(state: PromptState, inputs: PromptInputs) -> bool | None:
    """Return the verdict that the prompt supports, before errors of judgement; None if it is not about the world."""
    told = _verdict_on_a_text(inputs)
    if told is not None:
        return told
    plan, instruction = inputs.plan, inputs.instruction
    if "claim" in inputs.texts:
        by_question = inputs.question and not inputs.passages
        return evidence.claim_is_relevant(inputs) if by_question else evidence.claim_is_stated(inputs)
    if plan is None:
        return evidence.passages_contribute(state, inputs)
    if inputs.draft or inputs.texts.get("response"):
        own = _own_answer(state, plan, inputs.passages)
        return key(own) == key(inputs.draft or final_answer(plan, inputs.texts["response"]) or "")
    if _NEEDS_SEARCH.search(instruction) and not inputs.passages:
        return state.solve(plan, state.recall)[0] == UNKNOWN
    if state.hop_answers and not inputs.passages:
        return _verdict_on_hops(state, inputs, plan)
    if _MEMORY.search(instruction) or not (inputs.passages or _ENOUGH.search(instruction)):
        return state.solve(plan, state.recall)[0] != UNKNOWN
    if _ENOUGH.search(instruction):
        return all(_facts_stated(plan, inputs.passages, state))
    return evidence.passages_contribute(state, inputs)


def _verdict_on_a_text(inputs: PromptInputs) -> bool | None:
    """Return whether a reply commits itself to an answer, or two answers agree; None if the prompt has neither."""
    if "reply" in inputs.texts:
        return evidence.is_definite(inputs.texts["reply"])
    if len(inputs.answers) == 1 and not inputs.accepted_answers and _COMMITS.search(inputs.instruction):
        return evidence.is_definite(inputs.answers[0])
    if len(inputs.answers) >= 2:
        return all(inputs.answers) and key(inputs.answers[0]) == key(inputs.answers[1])
    if inputs.answers and inputs.accepted_answers:
        return key(inputs.answers[0]) in set(map(key, inputs.accepted_answers))
    return None


def _verdict_on_hops(state: PromptState, inputs: PromptInputs, plan: Plan) -> bool:
    """Return whether the answer is yes, for a yes/no question; for any other question whether no hop is missing."""
    if isinstance(plan, Comparison) and plan.kind == "same" and not _ENOUGH.search(inputs.instruction):
        return answer_from_hops(state, plan) == "yes"
    return next_missing_fact(plan, lambda entity, relation: state.hop_answers.get((key(entity), relation))) is None


def passages_suffice(state: PromptState, plan: Plan | None, passages: list[str]) -> bool:
    """Return the judgement whether passages state every fact of a plan, inner hops included."""
    truth = None if plan is None else all(_facts_stated(plan, passages, state))
    return noisy_probability(state, truth) > 0.5


def _own_answer(state: PromptState, plan: Plan, passages: list[str]) -> str:
    return read_answer(state, plan, passages)[0] if passages else state.solve(plan, state.recall)[0]


def _facts_stated(plan: Plan, passages: list[str], state: PromptState) -> list[bool]:
    """Return for each fact whether the passages state it; inner hops are read there, from answered hops or memory."""
    sources = parse_sources(passages)

    def lookup(entity: str, relation: str) -> str | None:
        accepted = best_supported(sources, entity, relation)
        hop_answer = state.hop_answers.get((key(entity), relation))
        return accepted.statement.value if accepted else hop_answer or state.memory.remembered(entity, relation)

    entities = [(value_of(fact.of, lookup), fact.relation) for fact in facts_of(plan)]
    return [
        entity is not None and best_supported(sources, entity, relation) is not None for entity, relation in entities
    ]


def noisy_probability(state: PromptState, truth: bool | None) -> float:
    """Return P(yes) in (0, 1): the judgement may be wrong, and confidence is pushed toward certainty.

    The confidence of a wrong judgement starts lower (0.5 to 0.8) than that of a right one (0.6 to 0.95), so that
    thresholds have an effect. Without a truth the probability is between 0.4 and 0.6.
    """
    if truth is None:
        return 0.4 + 0.2 * state.draws.uniform("no idea")
    wrong = state.draws.happens(state.dials.judging_error, "judgement")
    low, high = (0.5, 0.8) if wrong else (0.6, 0.95)
    calibrated = low + (high - low) * state.draws.uniform("confidence")
    confidence = calibrated + state.dials.judging_overconfidence * (1 - calibrated)
    return confidence if truth is not wrong else 1 - confidence
