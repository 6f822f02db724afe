"""Every program settles each hop of its prediction once, in order, unchanged, before it ends."""

import itertools

import pytest

from programs.catalog import PROGRAMS, build
from programs.parts.prediction import observe_hops
from programs.parts.verification import SCORES
from signatures.types import Passage
from tests.programs.fakes import Fake

# Replies that cannot be read end every preset alike; tests/programs/test_contract.py has more of them.
CASES = [
    (name, preset, kind)
    for name, cls in PROGRAMS.items()
    for preset in cls.PRESETS
    if preset != "few_shot"
    for kind in ("obliging", "reluctant", *(("unreadable", "half") if preset == "paper" else ()))
]


def replies(kind):
    """Return replies that lead through the branches of the programs."""
    number = itertools.count()

    def reply(system, user):
        turn = next(number)
        if "one word, yes or no" in user:
            return "no" if kind == "reluctant" else "yes"
        if kind == "unreadable" or (kind == "half" and turn % 2):
            return "?"
        gives = kind != "reluctant"
        return {
            "reasoning": "because",
            "finished": gives and "1. " in user,
            "sub_question": f"Who of them is number {turn}",
            "sentence": f"{'So the answer is' if gives and turn > 2 else 'She is'} number {turn}.",
            "complexity": "complex",
            "query": f"harbour {turn}",
            "chain": [f"Who is number {turn}? -> Ansa", f"Where is number {turn}? -> {'Tren' if gives else 'unknown'}"],
            "queries": [f"harbour {turn}"],
            "missing": "",
            "sufficient": gives,
            "response": f"Ansa Merrow {turn} [1]." if gives or turn % 3 == 0 else "unknown",
            "evidence": "The harbour master of Quillon is Ansa Merrow.",
            "document": "The harbour master of Quillon is Ansa Merrow." if gives else "unknown",
            "answer": f"Ansa Merrow {turn}" if gives else "unknown",
            **dict.fromkeys(SCORES, 0.5),
            "entities": ["Ansa Merrow"],
            "inferences": [f"Ansa Merrow is harbour master {turn}."],
            "judgement": "false",
            "revised_question": f"Where lies harbour number {turn}?",
            "thought": f"Harbour {turn} is missing.",
            "action": "finish" if gives and turn else "search",
            "argument": f"harbour {turn}",
            "information": f"Harbour {turn} has a master.",
        }

    return reply


class Endless(Fake):
    """Returns new passages for every query."""

    def find(self, query, k):
        return [Passage(id=f"{query} {n}", title="", text=f"{query} {n}. Ansa Merrow.") for n in range(k)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset", "kind"), CASES)
def test_settled_hops_are_those_of_the_prediction(name, preset, kind, scripted):
    scripted(replies(kind))
    program = build(name, Endless(), preset=preset)
    heard = []
    with observe_hops(lambda hop: heard.append(hop.model_copy(deep=True))):
        prediction = program(question="Who is the harbour master of Quillon?")
    assert heard == prediction.hops


STEPS = ["multihop", "ircot", "iter_retgen", "self_ask", "flare", "searchain", "adaptive_rag"]
AGENTS = ["react", "search_r1", "search_o1", "corag", "a_rag"]


@pytest.mark.parametrize("name", ["genground", "self_completion", "cov_rag", "retro_rag", *STEPS, *AGENTS])
def test_given_passages_are_a_hop_like_any_other(name, scripted, passages):
    scripted(replies("obliging"))
    heard = []
    with observe_hops(heard.append):
        prediction = build(name)(question="Who is the harbour master of Quillon?", passages=passages[3:5])
    assert heard == prediction.hops


@pytest.mark.parametrize(
    ("name", "kind"),
    [("genground", "reluctant"), ("multihop", "obliging"), ("cov_rag", "obliging"), ("self_completion", "reluctant"),
     ("retro_rag", "reluctant"), ("ircot", "obliging"), ("iter_retgen", "obliging"), ("self_ask", "reluctant"),
     ("flare", "obliging"), ("searchain", "reluctant"), ("adaptive_rag", "obliging"),
     *((name, "reluctant") for name in AGENTS)],
)  # fmt: skip
def test_a_hop_is_settled_before_the_next_one_is_asked_for(name, kind, scripted):
    engine = scripted(replies(kind))
    asked = []
    with observe_hops(lambda hop: asked.append(len(engine.requests))):
        build(name, Endless())(question="Who is the harbour master of Quillon?")
    assert len(asked) > 1
    assert asked[0] < asked[-1] <= len(engine.requests)
    assert asked[0] < len(engine.requests)


def test_inner_programs_can_be_left_unheard(scripted):
    scripted(replies("obliging"))
    heard = []
    with observe_hops(heard.append), observe_hops(None):
        build("multihop", Endless())(question="Who?")
    assert heard == []
