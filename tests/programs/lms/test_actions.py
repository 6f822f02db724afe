import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from programs.lms.adapter import ChatForm, JsonForm
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


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize(("text", "expected"), READ)
def test_a_step_in_the_plain_text_of_papers_is_read(form, text, expected):
    assert read(form, text) == expected


@pytest.mark.parametrize(
    ("action", "argument", "expected"),
    [
        ("Search[Quillon]", "", ("search", "Quillon")),
        ("Search[Quillon]", "Quillon harbour", ("search", "Quillon harbour")),
        ("final_answer", "Tren", ("finish", "Tren")),
        ("Retrieve", "Quillon", ("search", "Quillon")),
        ("search", "Quillon", ("search", "Quillon")),
        ("Action 1: Search[Quillon]", "", ("search", "Quillon")),
        ("1. Search[Quillon]", "", ("search", "Quillon")),
        ("Search[Bob]\nObservation 1: [1] Bob is", "", ("search", "Bob")),
        ("Finish[a] or [b]", "", ("finish", "a")),
    ],
)
def test_an_action_with_its_argument_and_other_names_are_read_in_fields(action, argument, expected):
    text = f"[[ ## action ## ]]\n{action}\n\n[[ ## argument ## ]]\n{argument}"
    assert read(ChatForm, text) == ("", *expected)  # the thought is missing


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
