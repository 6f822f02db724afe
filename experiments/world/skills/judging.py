"""Yes/no judgements with a probability: right most of the time, and too sure of themselves."""

import re

from experiments.world.grammar import Plan, facts_of, key, value_of
from experiments.world.prose import read_passage
from experiments.world.skills.mind import UNKNOWN, Mind
from experiments.world.skills.reading import read_answer

_MEMORY = re.compile(r"\b(you know|from memory|own knowledge|without (?:searching|passages|references))\b", re.I)
_ENOUGH = re.compile(r"\b(enough|suffic\w+|suffice)\b", re.I)


def supported(mind: Mind, instruction: str, plan: Plan | None, passages: list[str], answers: list[str]) -> bool | None:
    """Return what the prompt supports before any error of judgement; None where it is about nothing known.

    Args:
        instruction: The system text, whose words tell what kind of judgement is asked for.
        answers: The answers the prompt shows: two to compare, or one to check.
    """
    if len(answers) >= 2:
        return key(answers[0]) == key(answers[1])
    if plan is None:
        return None
    if answers:
        held = read_answer(mind, plan, passages)[0] if passages else mind.work_out(plan, mind.recall)[0]
        return key(held) == key(answers[0])
    if not passages or _MEMORY.search(instruction):
        return mind.work_out(plan, mind.recall)[0] != UNKNOWN
    if _ENOUGH.search(instruction):
        return all(_stated(fact_plan, passages, mind) for fact_plan in facts_of(plan))
    return any(_stated(fact_plan, passages, mind) for fact_plan in facts_of(plan))


def _stated(fact: Plan, passages: list[str], mind: Mind) -> bool:
    """Return whether the passages state a fact, inner hops read from the passages, the settled hops or memory."""
    views = [statement for passage in passages for statement in read_passage(passage)]
    stated = {(key(item.head), item.relation): item.value for item in views}

    def lookup(entity: str, relation: str) -> str | None:
        cause = (key(entity), relation)
        return stated.get(cause) or mind.settled.get(cause) or mind.memory.belief(entity, relation)

    entity = value_of(fact.of, lookup)  # type: ignore[union-attr]
    return entity is not None and (key(entity), fact.relation) in stated  # type: ignore[union-attr]


def probability_of_yes(mind: Mind, truth: bool | None) -> float:
    """Return P(yes) in (0, 1): the judgement may be wrong, and confidence is pushed toward certainty.

    A wrong judgement starts out less sure (0.5 to 0.8) than a right one (0.6 to 0.95), so that thresholds matter.
    """
    if truth is None:
        return 0.4 + 0.2 * mind.dice.roll("no idea")
    wrong = mind.dice.happens(mind.dials.judging_error, "judgement")
    low, high = (0.5, 0.8) if wrong else (0.6, 0.95)
    honest = low + (high - low) * mind.dice.roll("confidence")
    sure = honest + mind.dials.judging_overconfidence * (1 - honest)
    return sure if truth is not wrong else 1 - sure
