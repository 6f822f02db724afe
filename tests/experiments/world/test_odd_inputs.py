"""Inputs of any shape are answered, and what is no content, such as the order of the inputs, changes nothing."""

import random
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from experiments.world.prompt import FieldNote, Prompt
from experiments.world.prompt_inputs import parse_inputs
from programs.lms.adapter import ChatForm, JsonForm
from signatures.retro_rag import JudgeAgreement

ODD: tuple[Any, ...] = (
    "",
    "(none)",
    [],
    ["a", "b"],
    [1, 2],
    {"a": 1},
    [{"text": None}],
    [{"text": "x", "title": None}],
    [{"question": None}],
    [{"question": "Who?", "answer": None}, "x"],
    [["a", "b"]],
    3,
    0.5,
    True,
    "[1, 2",
    '[{"text": 5}]',
    "[null]",
    '["a", {"text": 1}]',
    '[{"text": "a"}, "b"]',
    '[{"question": "Who directed The Silver Signal?"}, 3]',
)
INPUTS = ("question", "passages", "hops", "claim", "answer", "response", "reply", "inferences", "reasoning", "limit")
OUTPUTS = {
    "answer": str,
    "finished": bool,
    "score": float,
    "queries": list[str],
    "verdict": bool,
    "response": str,
    "revised_question": str,
    "reasoning": str,
    "missing": str,
    "evidence": str,
}
INSTRUCTIONS = ("Do it.", "Is retrieval needed?", "Do the passages suffice?", "Is the claim wrong?")


@pytest.mark.slow
def test_inputs_of_any_shape_are_answered(running):
    rng = random.Random(0)
    adapters = (ChatForm(), JsonForm(), dspy.ChatAdapter(use_json_adapter_fallback=False))
    answered = 0
    with running():
        for _ in range(400):
            given = {name: rng.choice(ODD) for name in rng.sample(INPUTS, rng.randint(1, 4))}
            if "question" in given and rng.random() < 0.7:
                given["question"] = "Where was the director of The Silver Signal born?"
            asked = [name for name in rng.sample(sorted(OUTPUTS), rng.randint(1, 3)) if name not in given]
            if not asked:
                continue
            fields = {name: (Any, dspy.InputField()) for name in given}
            fields |= {name: (OUTPUTS[name], dspy.OutputField()) for name in asked}
            with dspy.context(adapter=rng.choice(adapters)):
                try:
                    dspy.Predict(dspy.Signature(fields, rng.choice(INSTRUCTIONS)))(**given)
                    answered += 1
                except AdapterParseError:
                    pass  # malformed replies belong to the world
    assert answered > 300


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ('[{"text": "a"}, "b"]', ["[1] a", "[2] b"]),
        ('["a", {"text": "b", "title": "T"}]', ["[1] a", "[2] T: b"]),
        ('[{"title": "T", "text": "a"}, {"other": 1}]', ["[1] T: a", "[2] {'other': 1}"]),
    ],
)
def test_every_item_of_a_mixed_list_is_a_passage(text, passages):
    prompt = Prompt("Read.", {"passages": text}, (), "plain", "", notes={"passages": FieldNote()})
    assert parse_inputs(prompt).passages == passages


def test_the_order_of_the_inputs_changes_nothing(running, films):
    fields = dict(JudgeAgreement.fields)
    names = ["other_answer", "answer", "question", "agree"]
    turned = dspy.Signature(
        {name: (fields[name].annotation, fields[name]) for name in names}, JudgeAgreement.instructions
    )
    with running():
        for film in films:
            asked = {"question": f"Who directed {film}?", "answer": "Quillon", "other_answer": "Zadel"}
            assert dspy.Predict(turned)(**asked).agree == dspy.Predict(JudgeAgreement)(**asked).agree
