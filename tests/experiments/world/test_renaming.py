"""Roles are recognised under other names: every signature of the programs with synonyms, or with names without meaning.

Types, descriptions and instructions stay. Where a description is missing too, shape and instruction must tell.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import dspy
import pytest

from programs.lms.adapter import ChatForm
from tests.conftest import load_module

pytestmark = pytest.mark.slow

signatures = load_module(Path(__file__).with_name("all_signatures.py"))
SIGNATURES, values = signatures.SIGNATURES, signatures.values

SYNONYMS: dict[str, tuple[str, str, str]] = {
    "question": ("problem", "inquiry", "main_question"),
    "passages": ("documents", "context", "retrieved_texts"),
    "hops": ("solved_steps", "chain_so_far", "history"),
    "sub_question": ("next_step", "follow_up", "sub_problem"),
    "answer": ("result", "solution", "final_output"),
    "finished": ("done", "ready", "all_settled"),
    "draft": ("tentative_answer", "first_guess", "candidate"),
    "evidence": ("snippet", "support", "source_text"),
    "inferences": ("deductions", "findings", "notes"),
    "claim": ("statement", "assertion", "proposition"),
    "entities": ("names", "subjects", "key_topics"),
    "query": ("search_terms", "lookup", "wanted"),
    "queries": ("search_terms", "keywords", "searches"),
    "other_answer": ("other_result", "second_solution", "other_guess"),
    "reply": ("message", "reaction", "what_was_said"),
    "reasoning": ("rationale", "thoughts", "explanation"),
    "response": ("report", "long_text", "essay"),
    "revised_question": ("rewritten", "reworded_problem", "better_question"),
    "sufficient": ("enough", "adequate", "answerable"),
    "missing": ("gaps", "lacking", "what_is_missing"),
    "limit": ("max_items", "at_most", "number"),
    "judgement": ("verdict", "ruling", "decision"),
    "reference_correctness": ("relevance", "context_score", "reference_quality"),
    "correctness": ("rightness", "accuracy", "correct"),
    "citation_accuracy": ("attribution", "citations", "mark_quality"),
    "truthfulness": ("consistency", "truth", "honesty"),
    "bias": ("departure", "bias_score", "slant"),
    "agree": ("same", "match", "equal"),
    "answered": ("committed", "definite", "given"),
    "contributes": ("helps", "useful", "relevant"),
    "relevant": ("pertinent", "helpful", "related"),
    "stated": ("supported", "found", "attributable"),
    "conciseness": ("brevity", "directness", "concise"),
    "document": ("background_passage", "article", "paragraph"),
    "sentence": ("next_sentence", "continuation", "next_line"),
    "advice": ("suggestion", "guidance", "hint"),
    "feedback": ("criticism", "critique", "fault"),
    "correct": ("right", "flawless", "is_correct"),
    "known": ("knows", "remembered", "known_by_heart"),
    "supported": ("follows", "entailed", "justified"),
    "look_up": ("search_needed", "needs_retrieval", "retrieve"),
    "useful": ("helpful", "good", "valuable"),
    "transcript": ("history", "log", "steps_so_far"),
    "thought": ("reflection", "reasoning_step", "rationale"),
    "action": ("move", "tool", "next_action"),
    "argument": ("operand", "action_input", "parameter"),
    "complexity": ("difficulty", "level", "route"),
    "chain": ("plan", "steps", "chain_of_queries"),
    "information": ("extract", "findings", "notes"),
}

# Of the strategies that were added when the world was frozen, those whose meaning it gets from a name, too: under other
# names it takes them for something else. Their programs use the names that it knows.
TOLD_BY_NAME = {
    "synonyms": {("FindFault", 1), ("TakeStep", 0)},
    "layout": {("JudgeSupport", 0), ("ReasoningSupports", 0), ("TakeStep", 0), ("TrustAnswer", 0)},
    "nameless": {
        *(("AnswerVerifyingQuestion", 0), ("FindFault", 0), ("JudgeUsefulness", 0), ("ReasonOn", 0)),
        *(("ReasoningSupports", 0), ("TakeStep", 0)),
    },
}


def renamings(test, sets=1):
    """Return the cases of a test: each signature with each set of names, those that are told by name as failing."""
    fails = pytest.mark.xfail(strict=True, reason="told by its name")
    return [
        pytest.param(
            signature,
            chosen,
            id=f"{signature.__name__}-{chosen}",
            marks=fails if (signature.__name__, chosen) in TOLD_BY_NAME[test] else (),
        )
        for signature in SIGNATURES
        for chosen in range(sets)
    ]


# Further names, some of which match `roles/words.py`. They measure how far the world depends on the words it knows:
# nothing may be added to that file because of them.
FURTHER = {
    "question": "user_need",
    "passages": "context_chunks",
    "hops": "history",
    "sub_question": "subgoal",
    "answer": "final_output",
    "finished": "should_stop",
    "draft": "tentative_answer",
    "evidence": "clipping",
    "inferences": "conclusions_drawn",
    "claim": "proposition",
    "entities": "key_terms",
    "query": "lookup",
    "queries": "requests",
    "other_answer": "alternative",
    "reply": "output_text",
    "reasoning": "chain_of_thought",
    "response": "cited_answer",
    "revised_question": "optimised_question",
    "sufficient": "can_answer",
    "missing": "unanswered_part",
    "limit": "k",
    "judgement": "label",
    "reference_correctness": "ref_score",
    "correctness": "ans_score",
    "citation_accuracy": "cite_score",
    "truthfulness": "logic_score",
    "bias": "bias_score",
    "agree": "equivalent",
    "answered": "is_real_answer",
    "contributes": "keep",
    "relevant": "on_topic",
    "stated": "grounded",
    "conciseness": "length_score",
}


CASES = 12  # of every kind
DSPYS = functools.partial(dspy.ChatAdapter, use_json_adapter_fallback=False)
Differing = Callable[..., float]


@pytest.fixture(scope="module")
def differing(running) -> Differing:
    """Return a function that returns the share of replies that are others under other names."""
    asked = signatures.cases()

    @functools.cache
    def usual(signature: type[dspy.Signature], layout: Callable[[], dspy.Adapter], cases: int) -> list[dict]:
        with running(adapter=layout()):
            return values(signature, {name: name for name in signature.fields}, asked[:cases])

    def share(signature, names, layout: Callable[[], dspy.Adapter] = ChatForm, cases: int = CASES) -> float:
        with running(adapter=layout()):
            other = values(signature, names, asked[:cases])
        return sum(one != two for one, two in zip(usual(signature, layout, cases), other, strict=True)) / cases

    return share


@pytest.mark.parametrize(("signature", "chosen"), renamings("synonyms", 3))
def test_synonyms_give_the_same_values(differing, signature, chosen):
    names = {name: SYNONYMS[name][chosen] for name in signature.fields}
    assert differing(signature, names) == 0


@pytest.mark.parametrize(("signature", "chosen"), renamings("layout"))
def test_dspys_own_layout_gives_the_same_values_under_other_names(differing, signature, chosen):
    names = {name: SYNONYMS[name][chosen] for name in signature.fields}
    assert differing(signature, names, DSPYS) == 0


@pytest.mark.parametrize(("signature", "chosen"), renamings("nameless"))
def test_names_that_say_nothing_leave_type_description_and_shape(differing, signature, chosen):
    names = dict(zip(signature.fields, "abcdefghijklmnopqrst", strict=False))
    assert differing(signature, names) <= 0.1


def test_names_that_are_further_change_few_replies(differing):
    """The share is in README.md: the world knows many names, not all. It is of the signatures that were there then."""
    shares = [
        differing(signature, {name: FURTHER[name] for name in signature.fields}, cases=30)
        for signature in signatures.EARLIER
    ]
    assert sum(shares) / len(shares) <= 0.05
