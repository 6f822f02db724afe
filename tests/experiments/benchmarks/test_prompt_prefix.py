"""What prompts share: an exact prefix cache, and the command that measures programs with it."""

import json
import sys

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.benchmarks.speed import prompt_prefix
from experiments.benchmarks.speed.prompt_shares import PrefixCache, Recorder, at_most, best_orders, shares
from programs.genground import GenGround
from signatures.common.errors import UserError
from signatures.types import Passage

PROMPTS = st.lists(st.lists(st.integers(0, 2), max_size=8).map(tuple), max_size=30)


def words(messages) -> tuple[str, ...]:
    return tuple(word for message in messages for word in message["content"].split())


@given(PROMPTS)
def test_a_prompt_shares_its_longest_prefix_with_any_earlier_one(prompts):
    cache = PrefixCache()
    for number, prompt in enumerate(prompts):
        earlier = {other[:length] for other in prompts[:number] for length in range(len(other) + 1)}
        longest = max((length for length in range(len(prompt) + 1) if prompt[:length] in earlier), default=0)
        assert cache.shared(prompt) == cache.add(prompt) == longest


@given(PROMPTS)
def test_what_is_not_shared_are_the_different_prefixes_in_any_order_of_the_calls(prompts):
    """The nodes of a radix tree of all prompts: each is computed once."""
    nodes = {prompt[:length] for prompt in prompts for length in range(1, len(prompt) + 1)}
    for order in (prompts, prompts[::-1]):
        found = shares([[("one", prompt)] for prompt in order])
        assert found["prompt_tokens"] - found["shared_tokens"] == len(nodes)


def test_shares_of_the_run_of_a_question_and_of_pairs_of_predictors():
    system, other = tuple(range(20)), tuple(range(50, 60))
    one = [("deduction", (*system, 1)), ("grounding", (*other, 2)), ("grounding", (*other, 2, 3))]
    found = shares([one, [("deduction", (*system, 4)), ("grounding", (*system, 5, 6))]])
    assert (found["calls"], found["prompt_tokens"], found["shared_tokens"]) == (5, 21 + 11 + 12 + 21 + 22, 11 + 20 + 20)
    assert found["share_of_question"] == round((11 + 20) / 87, 3)
    assert found["share_when_warm"] == round((20 + 20) / 43, 3)
    assert found["share_in_blocks"] == round((0 + 16 + 16) / 87, 3)
    grounding = found["predictors"]["grounding"]
    assert grounding["share_with_earlier"] == {"deduction": round(20 / 45, 3), "grounding": round(11 / 45, 3)}
    assert found["predictors"]["deduction"]["share"] == round(20 / 42, 3)


def grounded(scripted):
    """Return the recorded calls of one question: two hops of two batches each, and a conclusion."""
    hops = iter("ab")

    def reply(system, user):
        asked = f"Who is person {next(hops)} of this?" if system.startswith("Take") else ""
        return {"finished": False, "sub_question": asked, "evidence": "", "answer": "nobody"}

    scripted(reply)
    program = GenGround(max_hops=2, batch_size=1)
    recorder = Recorder(program)
    passages = [Passage(id=name, text=f"Text of {name}.") for name in "xy"]
    with dspy.context(callbacks=[recorder]):
        program("Question?", passages=passages)
    return recorder.calls


def test_every_call_is_recorded_under_its_predictor_with_the_inputs_of_that_time(scripted):
    calls = grounded(scripted)
    hop = ["deduction", "grounding", "grounding"]
    assert [call.predictor for call in calls] == [*hop, *hop, "conclusion"]
    assert [len(call.inputs["hops"]) for call in calls if "hops" in call.inputs] == [0, 1, 2]
    assert all(call.adapter.format(call.signature, call.demos, call.inputs) == call.messages for call in calls)


def test_the_best_order_shows_first_what_calls_share(scripted):
    found = best_orders([grounded(scripted)], words)
    assert found["grounding"]["order"] == tuple(GenGround().grounding.signature.input_fields)
    assert found["grounding"]["best"] >= found["grounding"]["share"]
    assert found["deduction"]["best_order"] == ("question", "hops")


def test_the_bound_counts_every_part_once_wherever_it_stands(scripted):
    calls = grounded(scripted)
    found = shares([[(call.predictor, words(call.messages)) for call in calls]] * 2)
    bound = at_most([calls, calls], words)
    assert found["share_of_question"] < bound["share_of_question"] < bound["share"] < 1
    assert found["share"] < bound["share"]
    assert at_most([calls[:1]], words)["share"] == 0


def test_an_option_of_a_program_is_a_preset_or_a_knob():
    assert prompt_prefix.open_program("genground", None, "small").batch_size == 1
    assert prompt_prefix.open_program("genground:preset=paper", None, "small").batch_size == 3
    assert prompt_prefix.open_program("retro_rag:batch_weighing=5", None, "small").batch_weighing == 5
    with pytest.raises(UserError, match="Unknown knob"):
        prompt_prefix.open_program("rag:depth=5", None, "small")


def test_the_command_writes_the_shares_of_every_program(monkeypatch, tmp_path, capsys):
    out = tmp_path / "prefix.json"
    monkeypatch.setattr(prompt_prefix, "embedded_tokenizer", lambda: words)
    arguments = ["--questions", "0", "--world", "2", "--programs", "rag,genground", "--orders", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["prompt_prefix", *arguments])
    prompt_prefix.main()
    programs = json.loads(out.read_text())["world"]["programs"]
    assert programs["rag"]["calls"] == programs["rag"]["predictors"]["reading"]["calls"] == 2
    assert set(programs["genground"]["predictors"]) >= {"deduction", "grounding"}
    assert 0 < programs["genground"]["share_of_question"] <= programs["genground"]["share"] < 1
    assert "genground" in capsys.readouterr().out
