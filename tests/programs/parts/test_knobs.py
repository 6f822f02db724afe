import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.catalog import PROGRAMS, build
from programs.genground import GenGround
from programs.parts.knobs import Choice, Range, knob_values, knobs_of, set_knobs, with_knobs
from signatures.common.errors import UserError


def test_a_bad_knob_is_refused_by_name_and_value():
    with pytest.raises(UserError, match=r"Knob k must be a number from 1 to 20, got 21"):
        GenGround(k=21)


def test_an_unknown_knob_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match=r"Unknown knob of GenGround 'kk'.*batch_size"):
        build("genground", kk=3)


@pytest.mark.parametrize("value", [True, "3", 2.5, None, float("nan")])
def test_a_whole_number_knob_takes_whole_numbers_only(value):
    with pytest.raises(UserError, match="Knob k must be"):
        GenGround(k=value)


def test_switches_are_knobs_without_a_space():
    knobs = knobs_of(GenGround)
    assert knobs["k"].space == Range(1, 20)
    assert knobs["deduce"].space is None
    assert "retrieve" not in knobs


def test_other_knobs_make_a_new_program_and_carry_the_state_over(retriever):
    program = GenGround(retriever)
    program.deduction.demos = [{"question": "q", "hops": [], "finished": False, "sub_question": "s", "answer": "a"}]
    renewed = with_knobs(program, k=3)
    assert (program.k, renewed.k) == (10, 3)
    assert renewed.retrieve is retriever
    assert [dict(demo) for demo in renewed.deduction.demos] == program.deduction.demos
    assert renewed.deduction.demos is not program.deduction.demos


@given(st.integers(1, 20), st.integers(1, 10), st.integers(1, 8))
def test_knob_values_build_the_same_program_again(k, batch_size, max_hops):
    program = GenGround(k=k, batch_size=batch_size, max_hops=max_hops)
    assert knob_values(GenGround(**knob_values(program))) == knob_values(program)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_switch_can_be_turned_on_a_live_program(name, retriever):
    program = build(name, retriever)
    for knob in knobs_of(program).values():
        if knob.type is bool:
            turned = with_knobs(program, **{knob.name: not knob.default})
            assert getattr(turned, knob.name) is not knob.default
            assert turned.max_calls() >= 1


def test_a_choice_names_its_options():
    with pytest.raises(UserError, match=r"Knob revise must be one of 'end', 'start', got 'x'"):
        Choice("end", "start").check("Knob revise", "x")


def test_set_knobs_takes_the_knobs_out_of_a_mapping_and_checks_them():
    program = GenGround()
    values = knob_values(program)
    set_knobs(program, {**values, "k": 3, "retrieve": "no knob", "self": program})
    assert knob_values(program) == {**values, "k": 3}
    assert program.retrieve is None
    with pytest.raises(KeyError):
        set_knobs(program, {"k": 3})
    with pytest.raises(UserError, match="Knob k must be int"):
        set_knobs(program, {**values, "k": "3"})


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf")])
def test_a_number_beyond_any_range_is_refused(value):
    with pytest.raises(UserError, match="must be a number from 1 to 20") as caught:
        Range(1, 20).check("k", value)
    assert len(str(caught.value)) < 200
