"""Yes/no judgements with a probability: mostly right, and overconfident."""

from dataclasses import dataclass

from experiments.world.grammar import Comparison, Plan, facts_of, key, next_missing_fact, value_of
from experiments.world.prompt import RequestedField
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.roles.instruction import asked_kind, own_kind
from experiments.world.roles.polarity import asks_for_the_contrary
from experiments.world.skills import evidence
from experiments.world.skills.decomposition import answer_from_hops
from experiments.world.skills.prompt_state import UNKNOWN, PromptState
from experiments.world.skills.reading import Reader, read_answer
from experiments.world.skills.statements import best_supported, parse_sources
from experiments.world.skills.verification import final_answer


@dataclass(frozen=True)
class Verdict:
    """What is judged, and the verdict without errors of judgement.

    Args:
        kind: The kind of judgement: contributes, suffices, memory, search, agreement, stated, relevant, answered,
            correct or hops. Judgements of different kinds err independently.
        truth: The verdict that the prompt supports; None if it is not about the world.
    """

    kind: str
    truth: bool | None


def p_yes(state: PromptState, inputs: PromptInputs, field: RequestedField | None = None, number: int = 0) -> float:
    """Return P(yes) in (0, 1) for a judgement that a prompt asks for.

    Args:
        state: The LM's state.
        inputs: The inputs of the prompt.
        field: The field that asks for it; None in the one-word form, in which the instruction alone does.
        number: How many judgements of the prompt precede it.
    """
    verdict = judge(state, inputs, field)
    return noisy_probability(state, verdict.truth, verdict.kind, number)


def judge(state: PromptState, inputs: PromptInputs, field: RequestedField | None = None) -> Verdict:
    """Return the verdict that the prompt supports for a field, in the polarity in which the field asks."""
    name, description = (field.name, field.note.description) if field else ("", "")
    own = own_kind(description) or own_kind(name.replace("_", " "))
    verdict = _verdict_on_a_text(inputs, own) or _verdict_on_facts(state, inputs, own)
    if verdict.truth is not None and asks_for_the_contrary(verdict.kind, name, description, inputs.instruction):
        return Verdict(verdict.kind, not verdict.truth)
    return verdict


def _verdict_on_a_text(inputs: PromptInputs, own: str | None) -> Verdict | None:
    """Return whether a reply commits itself, or answers agree; None if something else is judged."""
    if "reply" in inputs.texts:
        return Verdict("answered", evidence.is_definite(inputs.texts["reply"]))
    if own in {"search", "suffices", "memory", "contributes"}:
        return None
    asked = own or asked_kind(inputs.instruction)
    if len(inputs.answers) == 1 and not inputs.accepted_answers and asked == "answered":
        return Verdict("answered", evidence.is_definite(inputs.answers[0]))
    if len(inputs.answers) >= 2:
        return Verdict("agreement", all(inputs.answers) and key(inputs.answers[0]) == key(inputs.answers[1]))
    if inputs.answers and inputs.accepted_answers:
        return Verdict("correct", key(inputs.answers[0]) in set(map(key, inputs.accepted_answers)))
    return None


def _verdict_on_facts(state: PromptState, inputs: PromptInputs, own: str | None) -> Verdict:
    """Return the verdict on the prompt's claim, answer, hops or passages, or on what memory knows.

    What the field itself asks for counts first, then which inputs there are, then what the instruction affirms.
    """
    plan = inputs.plan
    if "claim" in inputs.texts and own not in {"search", "suffices", "memory"}:
        if inputs.question and (own == "contributes" or not inputs.passages):
            return Verdict("relevant", evidence.claim_is_relevant(inputs))
        return Verdict("stated", evidence.claim_is_stated(inputs))
    if plan is None:
        return Verdict("contributes", evidence.passages_contribute(state, inputs))
    asked = own or asked_kind(inputs.instruction)
    of_answer = bool(inputs.draft or inputs.texts.get("response"))
    if of_answer and own not in {"search", "suffices", "memory", "contributes"}:
        if own == "stated" and inputs.shows_passages and not inputs.passages:
            return Verdict("stated", False)
        told = _own_answer(state, plan, inputs.passages, recalls=own != "stated")
        given = inputs.draft or final_answer(plan, inputs.texts.get("response", "")) or ""
        return Verdict("stated" if own == "stated" else "correct", key(told) == key(given))
    if asked == "search" and (own == "search" or not inputs.passages):
        return Verdict("search", _search_is_needed(state, inputs, plan))
    if state.hop_answers and not inputs.passages and own != "memory":
        return Verdict("hops", _verdict_on_hops(state, inputs, plan))
    if asked == "memory" or not (inputs.passages or asked == "suffices" or own == "contributes"):
        return Verdict("memory", state.solve(plan, state.recall)[0] != UNKNOWN)
    if asked == "suffices":
        return Verdict("suffices", all(_facts_stated(plan, inputs.passages, state)))
    return Verdict("contributes", evidence.passages_contribute(state, inputs))


def _search_is_needed(state: PromptState, inputs: PromptInputs, plan: Plan) -> bool:
    """Return whether passages do not state every fact; without passages whether memory does not know the answer."""
    if inputs.passages:
        return not all(_facts_stated(plan, inputs.passages, state))
    return state.solve(plan, state.recall)[0] == UNKNOWN


def _verdict_on_hops(state: PromptState, inputs: PromptInputs, plan: Plan) -> bool:
    """Return whether the answer is yes, for a yes/no question; for any other question whether no hop is missing."""
    if isinstance(plan, Comparison) and plan.kind == "same" and asked_kind(inputs.instruction) != "suffices":
        return answer_from_hops(state, plan) == "yes"
    return next_missing_fact(plan, lambda entity, relation: state.hop_answers.get((key(entity), relation))) is None


def passages_suffice(state: PromptState, plan: Plan | None, passages: list[str]) -> bool:
    """Return the judgement whether passages state every fact of a plan, inner hops included."""
    truth = None if plan is None else all(_facts_stated(plan, passages, state))
    return noisy_probability(state, truth, "suffices") > 0.5


def _own_answer(state: PromptState, plan: Plan, passages: list[str], *, recalls: bool) -> str:
    """Return the answer from passages, if there are any; memory supplies what they do not state, if it may."""
    if not passages:
        return state.solve(plan, state.recall)[0]
    if not recalls:
        return state.solve(plan, Reader(state, passages, recalls=False).find)[0]
    return read_answer(state, plan, passages)[0]


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


def noisy_probability(state: PromptState, truth: bool | None, kind: str, number: int = 0) -> float:
    """Return P(yes) in (0, 1): the judgement may be wrong, and confidence is pushed toward certainty.

    In version 1 all judgements err alike, and the confidence of a wrong one starts lower (0.5 to 0.8) than that of a
    right one (0.6 to 0.95), so that thresholds have an effect. In version 2 (`judging.per_fact` above 0) each has a
    difficulty, its own probability of error, and its confidence starts as the probability that it is right. Without a
    truth the probability is between 0.4 and 0.6.

    Args:
        state: The LM's state.
        truth: The right verdict.
        kind: The kind of judgement, which the draws depend on.
        number: How many judgements of the prompt precede it.
    """
    if truth is None:
        return 0.4 + 0.2 * state.draws.uniform("no idea", kind, number)
    graded = state.dials.judging_per_fact > 0
    error = _difficulty(state, kind) if graded else state.judging_error
    wrong = state.draws.happens(error, "judgement", kind)
    low, high = (0.5, 0.8) if wrong else (0.6, 0.95)
    calibrated = 1 - error if graded else low + (high - low) * state.draws.uniform("confidence", kind)
    confidence = calibrated + state.dials.judging_overconfidence * (1 - calibrated)
    return confidence if truth is not wrong else 1 - confidence


def _difficulty(state: PromptState, kind: str) -> float:
    """Return the probability of error of one judgement, from 0 to 0.5: most are easy, and their mean is the dials'."""
    skew = 0.5 / max(state.judging_error, 1e-9) - 1  # the mean of 0.5 * u ** s, u uniform, is 0.5 / (s + 1)
    return 0.5 * float(state.draws.uniform("difficulty", kind) ** skew)
