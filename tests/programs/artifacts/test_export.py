"""Exported prompts are those that an LM receives, byte for byte, for every strategy."""

import json
import re
import threading
from copy import copy

import dspy
import pytest
from dspy.utils.callback import BaseCallback

from programs.artifacts.export import as_markdown, sent, templates
from programs.catalog import PROGRAMS, build
from programs.ensemble import Ensemble
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.rendering import render
from programs.nearest_demos import NearestDemos, PoolQuestion
from programs.parts.verification import SCORES
from signatures.plain_text import continues_text
from tests.programs.fakes import Similar

SWITCHES = {  # to have every predictor of a program asked at least once
    "meta_rag": [{"threshold": 1.0}],
    "genread": [{"decompose": True}],
    "grg": [{"decompose": True}],
    "self_ask": [{"search": False}],
    "genground": [{"ground": False}, {"deduce": False, "early_stop": False}, {"true_false": True}, {"few_shot": True}],
    "cov_rag": [{"chain": False}, {"revise": "start"}],
    "self_completion": [{"reflection": False}],
    "rrr": [{"rewrite": "one", "reader": "long"}],
    "verify_and_edit": [{"edit": "always"}],
    "react": [{"reader": "extract"}, {"reader": "passages"}],
    "search_r1": [{"reader": "extract"}, {"reader": "passages"}, {"form": "tags"}],
    "search_o1": [{"reader": "extract"}, {"reader": "passages"}],
    "a_rag": [{"reader": "passages"}, {"tools": "native"}],
    "adaptive_rag": [{"route": "none"}, {"route": "one"}, {"route": "several"}],
    "corag": [{"chains": 2}, {"reader": "passages"}],
    "retro_rag": [{"ellery": False}, {"batch_weighing": 2}],
}

AFTER_A_YES = {"meta_rag": {"supporting"}}  # the scripted engine gives no log-probabilities, so that P(yes) is unknown


def hesitant(system, user):
    """Reply to whatever is asked, so that loops go on for as long as they may."""
    disagrees = "agree" in system.lower() or "same" in system.lower() or ("suffice" in system and "[1]" not in user)
    if "one word, yes or no" in user:
        return "no" if disagrees else "yes"
    knows = "whether you know" in system or "passages alone suffice" in system
    return {
        "reasoning": "because",
        "finished": False,
        "sub_question": f"Who is number {len(user)}",
        "sentence": f"She is number {len(user)}.",
        "complexity": "complex",
        "query": f"harbour {len(user)}",
        "chain": [f"Who is number {len(user)}? -> Tren"],
        "queries": [f"harbour {len(user)}"],
        "missing": "much",
        "sufficient": False,
        "response": "Ansa Merrow of Quillon [1].",
        "evidence": "The harbour master of Quillon is Ansa Merrow.",
        "document": "The harbour master of Quillon is Ansa Merrow.",
        "answer": "Ansa Merrow",
        **dict.fromkeys(SCORES, 0.2),
        "entities": ["Ansa Merrow"],
        "inferences": ["Ansa Merrow is a harbour master."],
        "judgement": "false",
        "probability": 0.9 if knows and not disagrees else 0.4,
        "weights": [0.5, 0.5],
        "revised_question": f"Where lies number {len(user)}?",
        "thought": "There is more to find.",
        "action": "search",
        "argument": f"harbour {len(user)}",
        "information": "Ansa Merrow is a harbour master.",
    }


class Formatted(BaseCallback):
    """Remembers for each LM call which predictor formatted which inputs, and what was sent."""

    def __init__(self):
        self.last = {}
        self.calls = []

    def on_adapter_format_start(self, call_id, instance, inputs):
        values = {name: copy(value) for name, value in inputs["inputs"].items()}  # programs go on with their lists
        self.last[threading.get_ident()] = (dspy.settings.caller_modules[-1], inputs["signature"], values)

    def on_lm_start(self, call_id, instance, inputs):
        self.calls.append((*self.last[threading.get_ident()], inputs["messages"]))


def tuned(name, knobs, retriever):
    """Return a program whose predictors all have instructions and, where the types are plain, demonstrations."""
    program = build(name, retriever, **knobs)
    for number, (_, predictor) in enumerate(program.named_predictors()):
        text = f"{predictor.signature.instructions} Tuned «{number}», with {{question}} in braces.\n\n```Fenced```"
        predictor.signature = predictor.signature.with_instructions(text)
        if number % 2 == 0:
            values = {field: f"shown [[ ## {field} ## ]]" for field in predictor.signature.fields}
            predictor.demos = [dspy.Example(augmented=True, **values)]
    return program


def as_received(request):
    system = [] if request.system is None else [("system", request.system)]  # a text that is continued has none
    return [*system, *((message.role, message.text) for message in request.messages)]


def plain(messages):
    return [(message["role"], message["content"]) for message in messages]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "form"),
    [("logprobs", ChatForm), ("samples", JsonForm), ("verbalised", ChatForm), ("verbalised", JsonForm)],
)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_template_with_its_inputs_written_in_is_what_the_lm_receives(name, form, mode, scripted, retriever):
    asked, never = set(), set()
    for knobs in ({}, *SWITCHES.get(name, ())):
        program = tuned(name, knobs, retriever)
        exported = {prompt.predictor: prompt for prompt in templates(program, form(), mode=mode)}
        names = {id(predictor): key for key, predictor in program.named_predictors()}
        assert list(exported) == list(names.values())
        engine = scripted(hesitant if form is JsonForm else chatting(hesitant), form(probability_mode=mode))
        engine.supports_function_calling = knobs.get("tools") == "native"
        calls = Formatted()
        with dspy.context(callbacks=[calls]):
            program("Who is the harbour master?")
            program("Who is the harbour master?", passages=[])
        assert sorted(map(as_received, engine.requests)) == sorted(plain(call[-1]) for call in calls.calls)
        for predictor, signature, inputs, messages in calls.calls:
            if id(predictor) in names:  # others have no instructions or demonstrations to tune
                asked.add(names[id(predictor)])
                prompt = exported[names[id(predictor)]]
                assert written(prompt, signature, inputs) == messages
                assert prompt.outputs == list(signature.output_fields)
        never |= set(names.values())
    assert never - asked == (AFTER_A_YES.get(name, set()) if mode == "logprobs" else set())


def written(prompt, signature, inputs):
    """Return the messages of a template with the inputs in place of the placeholders."""
    if continues_text(signature):
        (*others, asked, text), said = prompt.messages, inputs["text"]
        assert text == {"role": "assistant", "content": prompt.inputs["text"].placeholder}
        content = asked["content"].replace(prompt.inputs["question"].placeholder, inputs["question"])
        return [*others, {**asked, "content": content}, *([{**text, "content": said}] if said else [])]
    *others, last = prompt.messages
    content = last["content"]
    for field, one in reversed(prompt.inputs.items()):  # from the end, since a value could look like a placeholder
        head, _, tail = content.rpartition(one.placeholder)
        content = head + render(signature.input_fields[field], inputs[field]) + tail
    return [*others, {**last, "content": content}]


def chatting(reply):
    """Return the same replies under headers, which `ChatForm` reads."""

    def chat(system, user):
        value = reply(system, user)
        if isinstance(value, str):
            return value
        asked = re.findall(r"`\[\[ ## (\w+) ## \]\]`", user.splitlines()[-1])
        texts = {field: json.dumps(text) if isinstance(text, list) else str(text) for field, text in value.items()}
        return "\n\n".join(f"[[ ## {field} ## ]]\n{texts.get(field, '')}" for field in asked)

    return chat


def test_the_prompts_of_a_question_are_those_that_were_sent_with_the_predictors_named(scripted, retriever):
    engine = scripted(hesitant)
    demo = dspy.Example(question="Q?", passages=[], answer="near")
    alike = Similar(lambda one, other: 1.0)
    near = NearestDemos(build("rag", retriever, k=1), [PoolQuestion("Who?", {"reading": [demo]})], alike)
    prompts, prediction = sent(Ensemble([build("multihop", retriever, k=1), near]), "Who is it?")
    assert prediction.answer == "Ansa Merrow"
    expected = sorted(as_received(request) for request in engine.requests)
    assert sorted(plain(prompt.messages) for prompt in prompts) == expected
    assert {prompt.predictor for prompt in prompts} == {"1/querying.predict", "1/reading.predict", "2/program/reading"}
    (reading,) = [prompt for prompt in prompts if prompt.predictor == "2/program/reading"]
    assert "near" in reading.messages[2]["content"]
    assert reading.settings["response_format"]["required"] == ["answer"]
    json.dumps([prompt.as_dict() for prompt in prompts])


def test_a_call_that_no_predictor_of_the_program_makes_is_named_as_such(scripted):
    scripted(hesitant)
    prompts, _ = sent(build("rag"), "Who?", [])
    assert [prompt.predictor for prompt in prompts] == ["(not tuned)"]


def test_the_parts_of_a_combination_are_exported_one_by_one(retriever):
    program = Ensemble([build("cot"), Ensemble([build("rag"), build("cot")])])
    assert [prompt.predictor for prompt in templates(program, ChatForm())] == [
        "1/answering.predict",
        "2/1/reading",
        "2/2/answering.predict",
    ]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_markdown_holds_every_message_verbatim(name, retriever):
    prompts = templates(tuned(name, {}, retriever), ChatForm())
    text = as_markdown(name, prompts)
    found = re.findall(r"^### (\w+)\n\n(`{3,})text\n(.*?)\n\2$", text, re.DOTALL | re.MULTILINE)
    assert [(role, content) for role, _, content in found] == [
        pair for prompt in prompts for pair in plain(prompt.messages)
    ]
    assert re.findall(r"^## (.+)$", re.sub(r"(`{3,})text\n.*?\n\1", "", text, flags=re.DOTALL), re.MULTILINE) == [
        prompt.predictor for prompt in prompts
    ]


def test_a_placeholder_stands_once_in_the_messages(retriever):
    for prompt in templates(tuned("genground", {}, retriever), ChatForm()):
        text = "\n".join(message["content"] for message in prompt.messages)
        assert all(text.count(one.placeholder) == 1 for one in prompt.inputs.values())
        assert prompt.inputs["question"].placeholder == "{question_2}"  # the instructions contain the first choice
