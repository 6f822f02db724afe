"""Choosing one of several options by what their words mean: an action, a level of difficulty, a degree of support."""

import re
from collections.abc import Sequence

from experiments.world.grammar import Fact, Name, facts_of, key
from experiments.world.passage_text import parse_sentences
from experiments.world.prompt import FieldNote, RequestedField
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.skills import continuation, judging
from experiments.world.skills.prompt_state import PromptState
from experiments.world.skills.statements import parse_sources, statements_about

FINISH, SEARCH, LOOK_UP = "finish", "search", "look up"

# An option has the first meaning whose expression matches its words.
_ACTIONS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (LOOK_UP, re.compile(r"look_?\s?up|scan|read", re.I)),
    (FINISH, re.compile(r"finish|answer|done|stop|conclude|final|submit", re.I)),
    (SEARCH, re.compile(r"search|retriev|query|find|ask|follow|continue|decompose", re.I)),
)
_LEVELS: tuple[re.Pattern[str], ...] = (
    re.compile(r"^(?:simple|easy|direct|no_?retrieval|closed|memory|none|a)\b", re.I),
    re.compile(r"^(?:moderate|medium|single|one)", re.I),
    re.compile(r"^(?:complex|hard|multi|iterat|difficult)", re.I),
)
_YES_OR_NO = {"yes", "no", "true", "false", "unclear", "unsure", "maybe"}
_LETTERS = {"a": 0, "b": 1, "c": 2}
_MIDDLE = re.compile(r"partial|partly|some|unclear|unsure|mixed|neutral|cannot|maybe|ambiguous", re.I)
_NEGATIVE = re.compile(
    r"^(?:no|not|none|false|wrong|never|un|irr|incorr|insuff|contra|refut|disagree|reject)|\bnot?\b", re.I
)


def action_of(option: str) -> str | None:
    """Return which action the words of an option mean; None if they mean none."""
    return next((action for action, expression in _ACTIONS if expression.search(option)), None)


def choose_option(state: PromptState, inputs: PromptInputs, field: RequestedField, *, finished: bool) -> str:
    """Return one of the options.

    Actions are told by what is missing, levels of difficulty by the number of facts and whether they are remembered,
    degrees of support by the share of statements that the passages state, other options by the yes/no judgement that
    the prompt asks for. Options that say nothing are drawn.

    Args:
        state: The LM's state.
        inputs: The inputs of the prompt.
        field: The field, with at least one option.
        finished: Whether no fact is missing.
    """
    options = field.options
    actions = {option: action_of(option) for option in options}
    if {FINISH, SEARCH} <= set(actions.values()):
        wanted = FINISH if finished else SEARCH
        if not finished and LOOK_UP in actions.values() and continuation.can_be_looked_up(state, inputs):
            wanted = LOOK_UP
        return next(option for option, action in actions.items() if action == wanted)
    levels = [_level(option, options) for option in options]
    if sum(level is not None for level in levels) >= 2:
        return _misjudged(state, options[_nearest(levels, _difficulty(state, inputs))], options, "difficulty")
    middle = [option for option in options if _MIDDLE.search(option)]
    negative = [option for option in options if _NEGATIVE.search(option) and option not in middle]
    positive = [option for option in options if option not in middle and option not in negative]
    if not positive or not negative:
        return state.draws.choose(options, "option", *options)
    share = _supported_share(inputs)
    if middle and share is not None:
        return _misjudged(state, (positive if share == 1 else middle if share else negative)[0], options, "support")
    # Options such as "supported" name the verdict themselves; yes and no take it from what is asked.
    asked = field if _YES_OR_NO.issuperset(option.lower() for option in options) else _nameless(field)
    return (positive if judging.p_yes(state, inputs, asked) > 0.5 else negative)[0]


def _nameless(field: RequestedField) -> RequestedField:
    """Return a field for the good side of its options, which say what is judged."""
    good = [option for option in field.options if not _NEGATIVE.search(option) and not _MIDDLE.search(option)]
    return RequestedField("verdict", FieldNote("option", " ".join(good), field.options))


def _misjudged(state: PromptState, right: str, options: Sequence[str], kind: str) -> str:
    """Return the right option, or another one with the probability `judging.error`."""
    others = [option for option in options if option != right]
    if others and state.draws.happens(state.judging_error, "judgement", kind):
        return state.draws.choose(others, "other option")
    return right


def _level(option: str, options: Sequence[str]) -> int | None:
    if {other.lower() for other in options} <= set(_LETTERS):
        return _LETTERS[option.lower()]
    return next((level for level, expression in enumerate(_LEVELS) if expression.search(option)), None)


def _nearest(levels: Sequence[int | None], wanted: int) -> int:
    """Return the place of the level that is nearest to the wanted one, of equals the harder."""
    return min(
        (place for place, level in enumerate(levels) if level is not None),
        key=lambda place: (abs((levels[place] or 0) - wanted), -(levels[place] or 0)),
    )


def _difficulty(state: PromptState, inputs: PromptInputs) -> int:
    """Return 0 for a single fact that is remembered, 1 for one that is not, 2 for several facts."""
    facts = list(facts_of(inputs.plan)) if inputs.plan else []
    if len(facts) > 1:
        return 2
    return 0 if facts and _remembers(state, facts[0]) else 1


def _remembers(state: PromptState, fact: Fact) -> bool:
    return isinstance(fact.of, Name) and state.memory.remembered(fact.of.text, fact.relation) is not None


def _supported_share(inputs: PromptInputs) -> float | None:
    """Return the share of the statements of the response or claim that passages state; None without statements."""
    text = inputs.texts.get("response") or inputs.texts.get("claim") or inputs.texts.get("reply") or ""
    stated = [statement for statement, _ in parse_sentences(text)]
    sources = parse_sources(inputs.passages)
    if not stated or not sources:
        return None
    supported = [
        key(each.value) in {key(item.statement.value) for item in statements_about(sources, each.head, each.relation)}
        for each in stated
    ]
    return sum(supported) / len(supported)
