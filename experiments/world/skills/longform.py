"""Long answers: full sentences, each with the number of the passage that it was read from."""

import re

from experiments.world.grammar import Comparison, Plan
from experiments.world.passage_text import CONCLUSION
from experiments.world.skills.prompt_state import UNKNOWN, PromptState, SolvedHop
from experiments.world.skills.reading import Reader
from experiments.world.skills.statements import LISTED

_MARK = re.compile(r"^\[(\d+)\]\s")


def write_response(state: PromptState, plan: Plan, passages: list[str]) -> tuple[str, list[SolvedHop]]:
    """Return the answer of a plan in sentences, and its hops.

    Each hop is a sentence; one from memory has no mark. A final sentence states the result of a comparison, or that
    the answer is unknown.
    """
    answer, hops = state.solve(plan, Reader(state, passages).find)
    numbers = [int(mark[1]) for mark in map(_MARK.match, passages) if mark]
    sentences = [_cited_sentence(state, hop, numbers) for hop in hops]
    if isinstance(plan, Comparison) or answer == UNKNOWN:
        sentences.append(CONCLUSION.format(answer=answer))
    return " ".join(dict.fromkeys(sentences)), hops


def _cited_sentence(state: PromptState, hop: SolvedHop, numbers: list[int]) -> str:
    """Return a hop as a sentence with its mark, which may be wrong (`citing.wrong_mark`)."""
    if hop.source in {None, LISTED}:
        return hop.as_sentence()
    number = hop.source
    others = [other for other in numbers if other != number]
    label = (hop.entity, hop.relation)
    if others and state.draws.happens(state.dials.citing_wrong_mark, "wrong mark", *label):
        number = state.draws.choose(others, "mark", *label)
    return f"{hop.as_sentence().removesuffix('.')} [{number}]."
