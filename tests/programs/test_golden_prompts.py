"""Every prompt as it is sent: every changed character can change results and must show up in review.

`UPDATE_GOLDEN=1 pytest tests/programs/test_golden_prompts.py` rewrites the files.
"""

import os
from pathlib import Path

import pytest

from programs.catalog import PROGRAMS, build
from programs.lms.adapter import ChatForm, JsonForm
from signatures.types import Hop, Passage

GOLDEN = Path(__file__).parents[1] / "golden"
VALUES = {
    "question": "In which sea lies the island where Ansa Merrow was born?",
    "sub_question": "Where was Ansa Merrow born?",
    "draft": "the Grey Sea",
    "response": "Ansa Merrow was born on Quillon [2], an island in the Amber Sea [1].",
    "answer": "the Amber Sea",
    "other_answer": "Amber Sea",
    "reply": "the Amber Sea",
    "evidence": "Quillon: Quillon is an island in the Amber Sea.",
    "query": "sea of Quillon",
    "entities": ["Ansa Merrow"],
    "inferences": ["Ansa Merrow was born on Quillon."],
    "notes": ["Ansa Merrow was born on Quillon."],
    "limit": 5,
    "advice": "Rely on the passages alone. The sea of Quillon is asked for, not the island.",
    "transcript": [
        "Thought 1: Where was Ansa Merrow born?",
        "Action 1: search: Ansa Merrow",
        "Result 1: Ansa Merrow: Merrow was born on Quillon.",
    ],
    "searched": ["Ansa Merrow"],
    "text": "<think>Where was she born?</think>\n<search>Ansa Merrow</search>\n\n"
    "<information>Doc 1(Title: Ansa Merrow) Merrow was born on Quillon.</information>\n\n",
    "claim": "Quillon lies in the Amber Sea.",
    "reasoning": "Merrow was born on Quillon, but its sea is not told. Answer: unknown",
    "pieces": [
        Passage(id="1", text="Quillon: Quillon is an island."),
        Passage(id="2", text="Merrow lives on Quillon."),
    ],
    "hops": [Hop(question="Where was Ansa Merrow born?", answer="Quillon", evidence="Merrow was born on Quillon")],
    "passages": [
        Passage(id="p1", title="Quillon", text="Quillon is an island in the Amber Sea."),
        Passage(id="p2", title="Ansa Merrow", text="Merrow was born on Quillon."),
    ],
}
SWITCHES = {  # to have every predictor of a program at least once
    "genread": [{"decompose": True}],
    "iter_retgen": [{"reader": "direct"}],
    "multihop": [{"carry": "notes"}, {"carry": "summaries"}],
    "searchain": [{"reader": "direct"}],
    "grg": [{"decompose": True}],
    "self_ask": [{"search": False}],
    "genground": [{"ground": False}, {"deduce": False, "early_stop": False}, {"true_false": True}, {"few_shot": True}],
    "cov_rag": [{"chain": False}, {"revise": "start"}],
    "rrr": [{"rewrite": "one", "reader": "long"}],
    "react": [{"reader": "extract"}, {"reader": "passages"}, {"form": "guided"}],
    "search_r1": [{"reader": "extract"}, {"reader": "passages"}, {"form": "tags"}, {"form": "guided"}],
    "search_o1": [{"reader": "extract"}, {"reader": "passages"}, {"form": "guided"}],
    "a_rag": [{"reader": "passages"}, {"tools": "native"}, {"tools": "guided"}],
    "corag": [{"chains": 2, "reader": "passages"}],
    "retro_rag": [{"ellery": False, "batch_weighing": 2}, {"limit_inferences": True}],
}


def predictors():
    for name in PROGRAMS:
        found = dict(build(name).named_predictors())
        for knobs in SWITCHES.get(name, ()):
            for predictor_name, predictor in build(name, **knobs).named_predictors():
                if predictor.demos:
                    predictor_name = f"{predictor_name}_with_demos"
                elif predictor_name in found and set(predictor.signature.fields) != set(
                    found[predictor_name].signature.fields
                ):
                    predictor_name = f"{predictor_name}_{next(iter(knobs))}"
                found[predictor_name] = predictor
        for predictor_name, predictor in found.items():
            yield pytest.param(predictor, id=f"{name}.{predictor_name.removesuffix('.predict')}")


PREDICTORS = list(predictors())


@pytest.mark.slow
@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("form", [ChatForm, JsonForm])
def test_the_prompt_is_the_one_that_was_reviewed(predictor, form, request):
    values = {name: VALUES[name] for name in predictor.signature.input_fields}
    messages = form().format(predictor.signature, predictor.demos, values)
    text = "\n\n".join(f"<{message['role']}>\n{message['content']}" for message in messages) + "\n"
    name = request.node.callspec.id.removeprefix(f"{form.__name__}-")
    path = GOLDEN / f"{name}.{form.__name__}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


def test_a_golden_file_stands_for_each_prompt_and_no_other():
    wanted = {f"{parameter.id}.{form.__name__}.txt" for parameter in PREDICTORS for form in (ChatForm, JsonForm)}
    assert {path.name for path in GOLDEN.iterdir()} == wanted
