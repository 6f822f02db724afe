import json
from typing import get_args

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from programs.lms.adapter import ChatForm, JsonForm, _written
from signatures.agents.guided import GuidedAction, GuidedStep, GuidedTool, allowing
from signatures.agents.react import TakeStep

READ = [
    ("Thought 1: Who?\nAction 1: Search[harbour of Quillon]", ("Who?", "search", "harbour of Quillon")),
    ("Answer (so far): none\nAction 1: Search[Bob]", ("Answer (so far): none", "search", "Bob")),
    ("Thought: Done.\nAction 1: Search[x]", ("Done.", "search", "x")),
    ("Thought 1: Search: who is it\nAction 1: Search[Real query]", ("Search: who is it", "search", "Real query")),
    (
        "Find (in the passages) nothing so far.\nAction: Search[q]",
        ("Find (in the passages) nothing so far.", "search", "q"),
    ),
    ("Action 1: Search[A] Observation 1: [1] made up", ("", "search", "A")),
    ("Action 1: Search[A]\nObservation 1: [1] made up", ("", "search", "A")),
    ("Action: search\nAction Input: mayor of Quillon", ("", "search", "mayor of Quillon")),
    ("Action 2: Look up: harbour master", ("", "lookup", "harbour master")),
    ("I know it now.\nFinish[Tren]", ("I know it now.", "finish", "Tren")),
    ("Action: finish\nQuery: none\nAnswer: Tren\nThought: Next?", ("", "finish", "Tren")),
    ("Action: search\nQuery: Quillon\nAnswer: Fog", ("", "search", "Quillon")),
    ("Action: search\nThought: Next?\nQuery: Tren", ("", "search", "")),
    ("Thought: It is told.\nFinal Answer: Tren", ("It is told.", "finish", "Tren")),
    ("**Action 3:** Search[Ansa Merrow (person)]", ("", "search", "Ansa Merrow (person)")),
    (
        "Thought 1: Search for it (the island).\nAction 1: search[Quillon]",
        ("Search for it (the island).", "search", "Quillon"),
    ),
]


def read(form, text):
    fields = form().parse(TakeStep, text)
    return fields["thought"], fields["action"], fields["argument"]


def read_apart(form, text, signature=GuidedStep):
    """Return thought, action and the field that the action uses; the other one must be empty."""
    fields = form().parse(signature, text)
    own, unused = ("answer", "query") if fields["action"] == "finish" else ("query", "answer")
    assert (fields.keys(), fields[unused]) == (signature.output_fields.keys(), "")
    return fields["thought"], fields["action"], fields[own]


def written(form, fields):
    """Return a reply that holds these fields, in the form that is asked for."""
    if form is JsonForm:
        return json.dumps(fields)
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())


@pytest.mark.parametrize("reading", [read, read_apart])
@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize(("text", "expected"), READ)
def test_a_step_in_the_plain_text_of_papers_is_read(form, text, expected, reading):
    assert reading(form, text) == expected


CALLED = pytest.mark.parametrize(
    ("action", "argument", "expected"),
    [
        ("Search[Quillon]", "", ("search", "Quillon")),
        ("Search[Quillon]", "Quillon harbour", ("search", "Quillon harbour")),
        ("final_answer", "Tren", ("finish", "Tren")),
        ("Final answer: Tren", "", ("finish", "Tren")),
        ("Retrieve", "Quillon", ("search", "Quillon")),
        ("search", "Quillon", ("search", "Quillon")),
        ("Action 1: Search[Quillon]", "", ("search", "Quillon")),
        ("1. Search[Quillon]", "", ("search", "Quillon")),
        ("Search[Bob]\nObservation 1: [1] Bob is", "", ("search", "Bob")),
        ("Finish[a] or [b]", "", ("finish", "a")),
    ],
)


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@CALLED
def test_an_action_with_its_argument_and_other_names_are_read_in_fields(form, action, argument, expected):
    assert read(form, written(form, {"action": action, "argument": argument})) == ("", *expected)  # without a thought


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@CALLED
def test_the_field_that_an_action_does_not_use_may_be_missing(form, action, argument, expected):
    own = "answer" if expected[0] == "finish" else "query"
    assert read_apart(form, written(form, {"action": action, own: argument})) == ("", *expected)


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize("signature", [GuidedAction, GuidedStep, GuidedTool])
def test_every_action_of_a_guided_agent_is_read_in_other_words(form, signature):
    words = {"search": "Retrieve", "finish": "Answer", "lookup": "Look up", "keywords": "Keyword", "read": "Open"}
    for action in get_args(signature.output_fields["action"].annotation):
        assert read_apart(form, f"Action 2: {words[action]}[Quillon]", signature) == ("", action, "Quillon")


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
def test_an_action_that_is_not_offered_is_unparseable(form):
    with pytest.raises(AdapterParseError):
        form().parse(allowing(GuidedAction, ("search",)), "Final answer: Tren")


def test_a_reply_in_all_its_fields_stays_as_it_is():
    said = {"thought": "Who?", "action": "search", "query": "", "answer": "Fog"}
    assert JsonForm().parse(GuidedAction, json.dumps(said)) == said
    assert JsonForm().parse(GuidedAction, json.dumps(said | {"action": "finish", "answer": False}))["answer"] == "no"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (JsonForm, '{"thought": "Who?", "action": "search", "query": "harbour of Qui'),
        (JsonForm, '{"thought": "Who?", "action": "search"}'),
        (JsonForm, '{"thought": "It is told.", "action": "finish", "query": ""}'),
        (ChatForm, "[[ ## action ## ]]\nfinish\n\n[[ ## query ## ]]\n"),
    ],
)
def test_a_reply_that_was_cut_off_is_unparseable(form, text):
    with pytest.raises(AdapterParseError):
        form().parse(GuidedAction, text)


@pytest.mark.parametrize(
    "text",
    ["[[ ## action ## ]]\nsearch", "Search is needed here.", "I will think about it.", "Action 1: Dance[tango]", ""],
)
def test_what_names_no_action_is_unparseable(text):
    with pytest.raises(AdapterParseError):
        ChatForm().parse(TakeStep, text)


def test_other_signatures_are_left_alone():
    signature = dspy.Signature("question -> action, answer")
    with pytest.raises(AdapterParseError):
        ChatForm().parse(signature, "Action 1: Search[x]")


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("Action: finish\nQuery: who was mayor?", ""),
        ("Action: finish\nAnswer: Tren\nQuery: none", "Tren"),
        ("Action: finish\nQuery: who\n\nAnswer: Tren", "Tren"),
        ("Action: search\n\nQuery: Quillon", "Quillon"),
    ],
)
def test_a_query_is_no_answer_and_blank_lines_end_nothing(text, argument):
    assert _written(text, ("search", "finish"))["argument"] == argument
