"""What is explored first, how much, and what is asked for it."""

import threading
from collections import Counter

import dspy
import pytest

from optimizers.replay.exploring import drawn_settings, explore
from optimizers.replay.memory import Memory, RememberingRetriever, remembering, with_memory
from optimizers.replay.replaying import Runner
from optimizers.replay.trees import hashable, leaves_of, way_to
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.parts.gates import replayable_knobs
from programs.parts.knobs import check_knobs
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion

FULL = 7  # a question that is revised or not, and verified once or twice


def explored(oracle, name="cov_rag", *, most=8, number=0, engine=None, **settings):
    """Explore a question; return runner, result, the leaves in order, and how many calls were sent."""
    _, runner = oracle.recorded(name)
    kept, drawn = [], drawn_settings(runner.program, count=100)
    engine = engine or oracle.ScriptedEngine(oracle.reply)
    with oracle.connection(engine, **settings):
        question, memory = oracle.example(number), Memory()
        found = explore(runner, question, memory, drawn, most=most, keep=kept.append)
    return runner, found, kept, len(engine.requests)


def test_settings_are_the_program_s_own_the_ends_of_ranges_and_draws(oracle):
    program = oracle.built("cov_rag")
    drawn = drawn_settings(program, count=20, seed=3)
    assert drawn[0] == {}
    assert len(drawn) == 1 + 2**5 * 2 * 2 + 20  # 5 ranges, 2 choices
    for setting in drawn:
        check_knobs(type(program), setting)
        assert set(setting) <= set(replayable_knobs(program))
    assert drawn == drawn_settings(program, count=20, seed=3) != drawn_settings(program, count=20, seed=4)
    assert {setting["turns"] for setting in drawn_settings(SelfCompletion)[1:]} == {1, 2, 3, 4, 5}
    assert all(isinstance(setting["max_rounds"], int) for setting in drawn_settings(RetroRAG)[1:])


def test_the_program_s_own_branch_comes_first_and_both_sides_of_gates_follow(oracle):
    runner, found, kept, _ = explored(oracle, number=FULL)
    with oracle.connection():
        assert kept[0] == runner.run(oracle.example(FULL), {}, Memory())
    assert found.leaves == len(kept) == len({repr(leaf.path) for leaf in kept}) > 1
    assert {leaf.path[1].decision for leaf in kept} == {True, False}  # the gate of the first verification
    assert (found.share, found.failed) == (1.0, None)


def test_no_call_is_sent_twice(oracle):
    _, _, kept, sent = explored(oracle, number=FULL)
    assert sent < sum(leaf.costs["calls"] for leaf in kept)
    _, _, first, alone = explored(oracle, number=FULL, most=1)
    assert alone == first[0].costs["calls"]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_branches_than_asked_for(oracle, most):
    runner, found, kept, _ = explored(oracle, "retro_rag", most=most, number=1)
    assert found.leaves == len(kept) == most
    assert len(leaves_of(runner.record.tree("q1"))) == most
    assert found.share < 1


def test_the_branch_that_most_settings_lead_to_comes_before_rare_ones(oracle):
    runner, _, (own,), _ = explored(oracle, "retro_rag", most=1, number=1)
    ways = Counter()
    for setting in drawn_settings(runner.program, count=100):
        way, leaf = way_to(runner.record.tree("q1"), runner.record.setting(setting))
        ways[way] += leaf is None
    (wanted, _), *_ = ways.most_common()
    _, _, (_, second), _ = explored(oracle, "retro_rag", most=2, number=1)
    assert tuple(hashable(step.decision) for step in second.path)[: len(wanted)] == wanted
    assert tuple(hashable(step.decision) for step in own.path)[: len(wanted)] != wanted


def test_a_spent_budget_ends_exploring_with_what_was_recorded(oracle):
    _, runner = oracle.recorded("cov_rag")
    kept, memory = [], Memory()
    drawn = drawn_settings(runner.program, count=50)
    with oracle.connection(budget=Budget(calls=4)), pytest.raises(BudgetExceeded):
        explore(runner, oracle.example(FULL), memory, drawn, most=8, keep=kept.append)
    assert len(kept) == 1
    assert len(memory) > 4  # calls and searches


def test_a_branch_that_fails_is_not_recorded_and_does_not_end_the_others(oracle):
    whole = explored(oracle, number=FULL)[2]
    first = whole[0].costs["calls"]

    def broken(system, user):
        if len(engine.requests) == first + 1:  # of the second branch
            raise RuntimeError("no reply")
        return oracle.reply(system, user)

    engine = oracle.ScriptedEngine(broken)
    _, found, kept, _ = explored(oracle, number=FULL, engine=engine)
    assert "no reply" in str(found.failed)
    assert len(kept) == len(whole) - 1
    assert kept[0] == whole[0]
    assert 0 < found.share < 1


def test_searches_are_remembered_one_by_one_and_at_once(oracle):
    shelves = oracle.Shelves()
    retriever, memory = RememberingRetriever(shelves), Memory()
    with remembering(memory):
        one = retriever("fog", 2)
        many = retriever.many(["fog", "sea", "fog"], 2)
        again = retriever.many(["sea", "fog"], 2)
    assert (many[0], many[2], again) == (one, one, [many[1], one])
    assert shelves.searches == 2
    retriever("fog", 2)
    assert shelves.searches == 3  # outside of a memory
    assert retriever.fingerprint == "shelves"


def test_the_searches_of_all_parts_are_remembered(oracle):
    program = oracle.built("cascade")
    changed = with_memory(program)
    assert isinstance(changed.cheap.retrieve, RememberingRetriever)
    assert isinstance(changed.dear.retrieve, RememberingRetriever)
    assert not isinstance(program.cheap.retrieve, RememberingRetriever)
    assert with_memory(changed).cheap.retrieve is changed.cheap.retrieve


def test_equal_calls_in_parallel_get_the_same_reply():
    memory, barrier, kept = Memory(), threading.Barrier(4), []

    def add(number):
        barrier.wait()
        kept.append(memory.add("call", {"text": number})["text"])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(kept)) == 1
    assert memory.reply("call") == {"text": kept[0]}


def test_gates_of_a_part_are_no_gates_of_the_whole(oracle):
    record, runner = oracle.recorded("cascade")
    with oracle.connection():
        asked = [runner.run(oracle.example(number), {"threshold": 0.0}, Memory()) for number in range(3)]
    assert [[step.gate for step in leaf.path] for leaf in asked] == [["ask"]] * 3
    assert isinstance(runner, Runner)
    assert isinstance(record.program, type)
    assert issubclass(record.program, dspy.Module)
