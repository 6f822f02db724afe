"""Verifying a long answer: scores, a judgement that follows from them, and a revised question to search with."""

import re

from experiments.world.grammar import Comparison, Fact, Name, Plan, compare, facts_of, key, render_question, value_of
from experiments.world.passage_text import Statement, parse_sentences, stated_conclusion
from experiments.world.prompt_inputs import PromptInputs
from experiments.world.reply import Value
from experiments.world.skills.decomposition import queries
from experiments.world.skills.prompt_state import UNKNOWN, PromptState
from experiments.world.skills.reading import read_answer
from experiments.world.skills.statements import (
    Source,
    best_supported,
    look_up_facts,
    parse_sources,
    statements_about,
)

TRUE, FALSE, UNCLEAR = "true", "false", "unclear"

# A field asks for the first score whose first expression matches its name, else whose second one its description.
_SCORES: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = (
    ("citation", re.compile(r"citation|attribution"), re.compile(r"\bnumbers?\b|citation|\bmarks?\b|\bcited?")),
    ("truthfulness", re.compile(r"truth|faithful|consisten|contradict"), re.compile(r"contradict|logic")),
    ("bias", re.compile(r"bias"), re.compile(r"\bbias|\bdepart|\bdiffer")),
    ("conciseness", re.compile(r"concise|brevity"), re.compile(r"padding|concise|brief")),
    ("reference", re.compile(r"reference|relevan|context"), re.compile(r"\bpassages\b|references|documents")),
    ("correctness", re.compile(r"correct|accura"), re.compile(r"right|correct|accura")),
)
_GOOD = 0.75  # the least value of a score that supports the response


def score_name(field_name: str, description: str = "") -> str | None:
    """Return the score that a field asks for: reference, citation, correctness, ...; None for no score."""
    by_name = next((score for score, names, _ in _SCORES if names.search(field_name)), None)
    return by_name or next((score for score, _, notes in _SCORES if notes.search(description)), None)


def verify(state: PromptState, inputs: PromptInputs, *, scored: bool) -> dict[str, Value]:
    """Return scores ("score NAME"), "judgement" and "revision" for the prompt's response.

    Without a response, return the revision alone: from what the passages lack, or a rewording if there are none.

    Args:
        state: The LM's state.
        inputs: The inputs of the prompt.
        scored: Whether the reply contains scores, from which the judgement then follows.
    """
    if "response" not in inputs.texts:
        return {"revision": revised_question(state, inputs) if inputs.passages else reworded_question(state, inputs)}
    if inputs.plan is None:
        return {"judgement": UNCLEAR, "revision": inputs.question}
    exact = exact_scores(state, inputs, inputs.plan)
    scores = noisy_scores(state, exact)
    judgement = judgement_from_scores(scores) if scored else judgement_without_scores(state, exact)
    revision = "" if judgement == TRUE else revised_question(state, inputs)
    return {**{f"score {name}": score for name, score in scores.items()}, "judgement": judgement, "revision": revision}


def exact_scores(state: PromptState, inputs: PromptInputs, plan: Plan) -> dict[str, float]:
    """Return each score in [0, 1] without noise.

    All but correctness and bias compare texts of the prompt. For correctness the LM answers the question itself from
    the passages, with its own faults, and compares. Bias is the departure from what it would answer itself without
    relying on the passages: 0 for the same answer, 1 for another one, 0.5 if it remembers none.
    """
    sources, response = parse_sources(inputs.passages), inputs.texts.get("response", "")
    stated, facts = parse_sentences(response), look_up_facts(plan, sources)
    own = read_answer(state, plan, inputs.passages)[0]
    answer = final_answer(plan, response)
    return {
        "reference": sum(fact.value is not None for fact in facts) / len(facts),
        "correctness": 0.5 if own == UNKNOWN else float(answer is not None and key(answer) == key(own)),
        "citation": _share([_cited(statement, marks, sources) for statement, marks in stated]),
        "truthfulness": 1 - _share([_contradicted(statement, sources) for statement, _ in stated]) if stated else 0.0,
        "bias": _departure(answer, examiners_answer(state, plan)),
        "conciseness": min(1.0, (len(facts) + 1) / (response.count(". ") + 1)),
    }


def noisy_scores(state: PromptState, exact: dict[str, float]) -> dict[str, float]:
    """Return the scores of the reply: each is replaced by a random number with the probability `judging.error`."""
    error = state.judging_error
    return {
        name: round(
            state.draws.uniform("careless score", name) if state.draws.happens(error, "score", name) else value, 2
        )
        for name, value in exact.items()
    }


def judgement_from_scores(scores: dict[str, float]) -> str:
    """Return the judgement that follows from scores.

    "true" if at least four of five scores support the response and it is not clearly biased, so that no random score
    but that of bias changes it; "false" if at most two scores do; "unclear" between.
    """
    five = [scores[name] for name in ("reference", "correctness", "citation", "truthfulness")] + [1 - scores["bias"]]
    good = sum(score >= _GOOD for score in five)
    if good >= 4 and scores["bias"] < _GOOD:
        return TRUE
    return FALSE if good <= 2 else UNCLEAR


def judgement_without_scores(state: PromptState, exact: dict[str, float]) -> str:
    """Return the judgement of a reply without scores: that of the exact ones, or, with a higher error, the opposite."""
    truth = judgement_from_scores(exact)
    error = state.judging_error
    if not state.in_writing:
        error = 1 - (1 - error) * (1 - state.dials.judging_unwritten)
    if not state.draws.happens(error, "judgement", "response"):
        return truth
    return FALSE if truth == TRUE else TRUE


def revised_question(state: PromptState, inputs: PromptInputs) -> str:
    """Return the question followed by a query for what the passages lack, with its entity read from the passages.

    A search with both finds what the question names and what it leads to.
    """
    missing = queries(state, inputs, last=True)[0]
    return inputs.question if missing == inputs.question else f"{inputs.question} {missing}"


def reworded_question(state: PromptState, inputs: PromptInputs) -> str:
    """Return another wording of the question; with the probability `reasoning.drift` its meaning changes.

    The first hop of a drifted question is replaced by its remembered value, right or wrong; a comparison loses one
    side.
    """
    plan = inputs.plan
    if plan is None:
        return inputs.question
    if state.draws.happens(state.dials.reasoning_drift, "drift"):
        plan = plan.left if isinstance(plan, Comparison) else _first_hop_filled(state, plan)
    return render_question(plan, lambda options: state.draws.choose(options, "wording", *options))


def examiners_answer(state: PromptState, plan: Plan) -> str | None:
    """Return what the LM itself would answer without passages; None if it does not remember a fact that it needs.

    It neither guesses nor composes wrongly here: an examiner who has no answer has none to compare with.
    """

    def recall(entity: str, relation: str) -> str | None:
        return state.memory.remembered(entity, relation)

    if isinstance(plan, Fact):
        return value_of(plan, recall)
    left, right = value_of(plan.left, recall), value_of(plan.right, recall)
    return compare(plan, left, right, recall) if left and right else None


def _departure(answer: str | None, own: str | None) -> float:
    if own is None:
        return 0.5
    return float(answer is None or key(answer) != key(own))


def final_answer(plan: Plan, response: str) -> str | None:
    """Return the answer that a response gives to a plan's question; None if it gives none."""
    concluded = stated_conclusion(response)
    if concluded is not None:
        return None if concluded == UNKNOWN else concluded
    stated = {(key(item.head), item.relation): item.value for item, _ in parse_sentences(response)}

    def lookup(entity: str, relation: str) -> str | None:
        return stated.get((key(entity), relation))

    if isinstance(plan, Fact):
        return value_of(plan, lookup)
    left, right = value_of(plan.left, lookup), value_of(plan.right, lookup)
    return compare(plan, left, right, lookup) if left and right else None


def _share(flags: list[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def _in_sources(statement: Statement, sources: list[Source]) -> bool:
    values = [item.statement.value for item in statements_about(sources, statement.head, statement.relation)]
    return key(statement.value) in map(key, values)


def _cited(statement: Statement, marks: tuple[int, ...], sources: list[Source]) -> bool:
    return _in_sources(statement, [source for source in sources if source.number in marks])


def _contradicted(statement: Statement, sources: list[Source]) -> bool:
    accepted = best_supported(sources, statement.head, statement.relation)
    return accepted is not None and key(accepted.statement.value) != key(statement.value)


def _first_hop_filled(state: PromptState, plan: Fact) -> Plan:
    """Return a chain whose innermost fact is replaced by its remembered value; a single fact is unchanged."""
    first = next(facts_of(plan))
    value = state.memory.remembered(value_of(first.of, lambda *_: None) or "", first.relation)
    if value is None or first == plan:
        return plan

    def fill(fact: Fact) -> Fact:
        return Fact(fact.relation, Name(value) if fact.of == first else fill(fact.of))  # type: ignore[arg-type]

    return fill(plan)
