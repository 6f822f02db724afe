"""Candidates for demonstrations and instructions: put on a program, stored, and checked when read back."""

import pytest

from optimizers.evaluating import instructions_of
from optimizers.tuning.prompts import (
    Prompts,
    demos_of,
    instruction_of,
    is_prompt,
    read_prompts,
)
from optimizers.tuning.space import Options
from programs.closed_book.cot import CoT
from programs.genground import GenGround
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError

DEMO = {"question": "Who?", "answer": "Ansa Merrow", "reasoning": "The text says so."}


def candidates(program) -> Prompts:
    name, predictor = program.named_predictors()[0]
    fields = predictor.signature.fields
    demo = {field: value for field, value in DEMO.items() if field in fields}
    return Prompts({"bootstrap-1": {name: [demo]}}, {name: {"written-1": "Answer as a clerk would."}})


def test_labels_put_candidates_on_a_program_and_present_ones_change_nothing():
    program = CoT()
    prompts = candidates(program)
    name = program.named_predictors()[0][0]
    before = program.dump_state()
    assert prompts.apply(program, {"demos": "present", instruction_of(name): "present", "k": 3}).dump_state() == before
    prompts.apply(program, {"demos": "bootstrap-1", instruction_of(name): "written-1"})
    assert instructions_of(program) == {name: "Answer as a clerk would."}
    assert demos_of(program) == prompts.demos["bootstrap-1"]
    assert prompts.apply(program, {"demos": "present"}) is program


def test_each_predictor_has_its_instruction_and_the_program_one_set_of_demonstrations():
    program = GenGround(None)
    names = [name for name, _ in program.named_predictors()]
    prompts = Prompts({"a": {}}, {name: {"w": "Do it."} for name in names[:2]} | {names[-1]: {}})
    assert prompts.dimensions() == [
        Options("demos", ("present", "a")),
        *(Options(f"instruction.{name}", ("present", "w")) for name in names[:2]),
    ]
    assert all(is_prompt(dimension.name) for dimension in prompts.dimensions())
    assert not is_prompt("k")


def test_a_predictor_that_a_switch_removed_is_left_out():
    program = with_knobs(GenGround(None), ground=False)
    prompts = Prompts({"a": {name: [] for name, _ in GenGround(None).named_predictors()}}, {"grounding": {"w": "x"}})
    prompts.apply(program, {"demos": "a", "instruction.grounding": "w"})


def test_an_unknown_label_is_an_error():
    with pytest.raises(UserError, match="has no candidate 'other'; it has bootstrap-1"):
        candidates(CoT()).apply(CoT(), {"demos": "other"})


def test_candidates_survive_a_round_trip_and_strange_ones_are_refused():
    program = CoT()
    prompts = candidates(program)
    record = prompts.as_dict()
    assert read_prompts(record, program) == prompts
    name = program.named_predictors()[0][0]
    for damaged in (
        {"demos": {}},
        {"demos": [], "instructions": {}},
        {"demos": {}, "instructions": {name: {"w": 7}}},
    ):
        with pytest.raises(UserError, match="damaged"):
            read_prompts(damaged, program)
    for demos in ({name: [{"lm": "http://evil"}]}, {name: [{"answer": 7}]}, {name: "x"}):
        with pytest.raises(UserError, match="'a' of the study are not this program's"):
            read_prompts({"demos": {"a": demos}, "instructions": {}}, program)
