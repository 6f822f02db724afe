"""Numbers: scores and probabilities on the scale that the prompt states, and counts of hops."""

import re

from experiments.world.grammar import facts_of
from experiments.world.prompt import RequestedField
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.reply import Value
from experiments.world.skills import judging, verification
from experiments.world.skills.prompt_state import PromptState

_RANGE = re.compile(
    r"\b(\d+(?:\.\d+)?)\s*(?:to|-|–)\s*(\d+(?:\.\d+)?)\b|\bbetween\s+(\d+(?:\.\d+)?)\s+and\s+(\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)
_COUNTED = r"(?:hops?|steps?|facts?|sub-?\s?questions?)"
_COUNT = re.compile(
    rf"\b(?:number|count|how many|num|n)\b.*\b{_COUNTED}\b|\b{_COUNTED} (?:needed|required|necessary|count)\b",
    re.IGNORECASE,
)


def number_asked_for(
    state: PromptState, inputs: PromptInputs, field: RequestedField, values: dict[str, Value], *, alone: bool
) -> float:
    """Return the value of a number: a count of hops, or a score or P(yes) on the stated scale, by default 0 to 1.

    Args:
        state: The LM's state.
        inputs: The inputs of the prompt.
        field: The field.
        values: The values of the requested roles, scores among them.
        alone: Whether it is the only field besides reasoning, so that the instruction states its scale, too.
    """
    description = field.note.description
    if inputs.plan and any(_COUNT.search(words) for words in (description, field.name.replace("_", " "))):
        return len(list(facts_of(inputs.plan)))
    score = values.get(f"score {verification.score_name(field.name, description)}")
    share = float(score) if isinstance(score, int | float) else judging.p_yes(state, inputs, field)
    scale = _RANGE.search(description) or (_RANGE.search(inputs.instruction) if alone else None)
    low, high = (float(end) for end in scale.groups() if end) if scale else (0.0, 1.0)
    if low >= high:
        low, high = 0.0, 1.0
    value = low + share * (high - low)
    return round(value) if field.note.whole else round(value, 2)
