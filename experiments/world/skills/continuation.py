"""One step of a text that grows: the next sentence of a chain of thought, the next action, a passage from memory."""

import re

from experiments.world.grammar import key, next_missing_fact
from experiments.world.passage_text import CONCLUSION, title_of
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.relations import BY_NAME
from experiments.world.skills.decomposition import answer_from_hops
from experiments.world.skills.prompt_state import UNKNOWN, PromptState
from experiments.world.skills.reading import Reader

_SLOTS = re.compile(r"\{[xy]\}|\.$")


def next_sentence(state: PromptState, inputs: PromptInputs) -> str:
    """Return the sentence that follows the thoughts so far: the next fact, or the conclusion if none is left.

    The fact is read from passages, if one states it, and else remembered.
    """
    if inputs.plan is None:
        return CONCLUSION.format(answer=UNKNOWN)
    missing = next_missing_fact(inputs.plan, lambda entity, relation: state.hop_answers.get((key(entity), relation)))
    reader = Reader(state, inputs.passages, inputs.listed_facts, offers_unknown=inputs.offers_unknown)
    hop = reader.find(*missing) if missing else None
    if hop is None:
        answer = UNKNOWN if missing else answer_from_hops(state, inputs.plan)
        return CONCLUSION.format(answer=answer)
    return hop.as_sentence()


def words_to_look_up(state: PromptState, inputs: PromptInputs) -> str:
    """Return the words by which a passage at hand would state the next missing fact; empty if none is missing."""
    missing = _next_missing(state, inputs)
    return " ".join(_SLOTS.sub("", BY_NAME[missing[1]].statements[0]).split()) if missing else ""


def can_be_looked_up(state: PromptState, inputs: PromptInputs) -> bool:
    """Return whether a passage about the entity of the next missing fact is at hand, and was not searched in vain."""
    missing = _next_missing(state, inputs)
    if missing is None or words_to_look_up(state, inputs) in (inputs.found_before or ""):
        return False
    return any(key(title_of(passage)) == key(missing[0]) for passage in inputs.passages)


def _next_missing(state: PromptState, inputs: PromptInputs) -> tuple[str, str] | None:
    reader = Reader(state, inputs.passages, inputs.listed_facts, recalls=False)

    def known(entity: str, relation: str) -> str | None:
        hop = reader.find(entity, relation)
        return hop.value if hop else None

    return next_missing_fact(inputs.plan, known) if inputs.plan else None
