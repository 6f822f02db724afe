from itertools import pairwise

import pytest

from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.compile import checked_task, compile
from optimizers.teleprompters.race.race import ARMS, plan
from programs.lms.calls.budget import Budget
from programs.single_step.rag import RAG
from signatures.common.errors import UserError

pytestmark = pytest.mark.slow

FEW = {"arms": "bootstrap,infer_rules,gepa,knn", "keep_one_in": 2, "fewest": 4}


def run(here, retriever, **fields):
    with here.context():
        task = here.task(**{"options": FEW, "threads": 1, **fields})
        return compile(RAG(retriever), task, optimizer="race")


def rows(compiled):
    return {row["optimizer"]: row for row in compiled.details["race"]["rows"]}


@pytest.fixture
def many(make_examples):
    return {"trainset": make_examples(12), "valset": make_examples(24, 100)}  # 12 of these are held back


def test_the_optimizer_that_finds_what_helps_wins_and_random_search_is_on_every_rung(world, retriever, many):
    here = world(budget=Budget(calls=300))
    compiled = run(here, retriever, **many)
    race, table = compiled.details["race"], rows(compiled)
    assert race["winner"] in ("infer_rules", "gepa")
    assert "MAGIC" in compiled.program.reading.signature.instructions
    assert table[race["winner"]]["score"] == table[race["winner"]]["held_back"] == 1.0
    assert table[race["winner"]]["n"] == table[race["winner"]]["n_held_back"] == 12
    assert table[race["winner"]]["p"] < 0.02
    assert table["uncompiled"]["score"] + table["uncompiled"]["held_back"] == pytest.approx(2 / 3)
    assert compiled.chosen == f"final: {race['winner']}"
    assert compiled.stopped is None
    last = max(row["rung"] for row in table.values())
    assert last == 3
    assert table["uncompiled"]["rung"] == table["random_search"]["rung"] == last
    dropped = [row for row in table.values() if row["outcome"].startswith("rung")]
    assert len(dropped) == 3
    assert all(row["n"] < 12 for row in dropped)


def test_random_search_is_never_dropped_even_where_nothing_is_cached(world, retriever, many):
    table = rows(run(world(budget=Budget(calls=70), cache=False), retriever, options={**FEW, "rungs": 2}, **many))
    assert "nothing was scored" not in table["random_search"]["outcome"]
    assert any("nothing was scored: its share of the budget was used up" in row["outcome"] for row in table.values())


def test_the_whole_race_keeps_to_its_budget_and_every_arm_to_its_share(world, retriever, many):
    for calls in (30, 120):
        here = world(budget=Budget(calls=calls))
        compiled = run(here, retriever, **many)
        sent = len(here.task_engine.requests) + len(here.prompt_engine.requests)
        assert sent == sum(row.get("sent", 0) for row in rows(compiled).values()) <= calls


def test_calls_can_be_limited_for_the_race_alone(world, retriever, many):
    here = world(budget=Budget())
    here.prompt_lm.budget = here.lm.budget
    run(here, retriever, options={**FEW, "calls": 90}, **many)
    assert len(here.task_engine.requests) + len(here.prompt_engine.requests) <= 90


def test_a_race_inside_a_share_divides_the_share(world, retriever, many):
    here = world(budget=Budget(calls=1000))
    with here.lm.budget.within(calls=100):
        inside = run(here, retriever, **many)
    alone = run(world(budget=Budget(calls=100)), retriever, **many)
    assert inside.details == alone.details


def test_a_limit_of_calls_that_cannot_be_kept_is_refused(world, retriever, many):
    import dspy

    here = world()
    assert here.lm.budget is not here.prompt_lm.budget
    with pytest.raises(UserError, match="calls=20 of the race cannot be enforced: the LMs have a budget each"):
        run(here, retriever, options={**FEW, "calls": 20}, **many)
    here.lm = dspy.LM("plain/lm", engine=here.task_engine, cache=False)
    with pytest.raises(UserError, match="calls=20 of the race cannot be enforced: an LM has no budget"):
        run(here, retriever, options={**FEW, "calls": 20}, **many)
    assert not here.task_engine.requests


def test_a_program_that_is_better_by_chance_only_does_not_replace_the_uncompiled_one(world, retriever, many):
    here = world(
        budget=Budget(calls=200),
        writer=lambda system, user: {"new_instruction": "Nothing.", "natural_language_rules": "None."},
    )
    compiled = run(here, retriever, **many)
    assert compiled.details["race"]["winner"] == "uncompiled"
    assert "so the program stays as it was" in compiled.details["race"]["why"]
    assert compiled.program.dump_state() == RAG(retriever).dump_state()


def test_the_rule_that_replaces_can_be_set(world, retriever, make_examples):
    sets = {"trainset": make_examples(6), "valset": make_examples(12, 100)}
    rules = {"arms": "infer_rules", "replace_below": 0.02}
    strict = run(world(), retriever, options=rules, **sets)
    assert strict.details["race"]["winner"] == "uncompiled"  # four questions gained: p = 1/16
    assert "not below 0.02" in strict.details["race"]["why"]
    assert (
        run(world(), retriever, options={**FEW, "replace_below": 0.2}, **sets).details["race"]["winner"] != "uncompiled"
    )


def test_the_same_seed_gives_the_same_race(world, retriever, many):
    def same(threads, **limits):
        options = {"arms": "bootstrap,infer_rules"} if "tokens" in limits else FEW
        compiled = run(world(budget=Budget(**limits)), retriever, threads=threads, options=options, **many)
        costs = ("calls", "sent", "tokens") if threads > 1 else ()
        table = [{key: row[key] for key in row if key not in costs} for row in compiled.details["race"]["rows"]]
        return compiled.program.dump_state(), table, compiled.details["race"]["why"]

    assert same(1, calls=100) == same(1, calls=100)
    assert same(3, tokens=10**6) == same(4, tokens=10**6)


def test_a_race_that_is_run_again_gets_everything_from_the_cache(world, retriever, many):
    here = world()
    many["options"] = {"arms": "bootstrap,infer_rules"}
    first = run(here, retriever, **many)
    sent = len(here.task_engine.requests), len(here.prompt_engine.requests)
    again = run(here, retriever, **many)
    assert (len(here.task_engine.requests), len(here.prompt_engine.requests)) == sent
    assert again.program.dump_state() == first.program.dump_state()
    assert all(row.get("sent", 0) == 0 for row in rows(again).values())


def test_a_budget_that_is_spent_before_the_final_test_leaves_the_program_as_it_was(world, retriever, many):
    from programs.lms.calls.budget import BudgetExceeded

    here = world(budget=Budget(calls=200))
    asked = here.task_engine.complete

    def until_the_last_rung(request):
        if len(here.task_engine.requests) > 60:
            raise BudgetExceeded("The budget of 60 calls is used up.")
        return asked(request)

    here.task_engine.complete = until_the_last_rung
    compiled = run(here, retriever, **many)
    assert compiled.stopped == "The budget of 60 calls is used up."
    assert compiled.details["race"]["stopped"] == compiled.stopped
    assert compiled.details["race"]["winner"] == "uncompiled"
    assert "ended before its final test" in compiled.details["race"]["why"]
    assert compiled.program.dump_state() == RAG(retriever).dump_state()


def test_a_budget_for_nothing_leaves_the_program_as_it_was(world, retriever, many):
    compiled = run(world(budget=Budget(calls=2)), retriever, **many)
    assert compiled.stopped is not None
    assert compiled.details["race"]["winner"] == "uncompiled"
    assert compiled.program.dump_state() == RAG(retriever).dump_state()


def test_an_arm_that_fails_is_dropped_with_the_reason_and_a_server_that_is_gone_ends_the_race(world, retriever, many):
    def broken(system, user):
        raise RuntimeError("no such parameter")

    def gone(system, user):
        raise UserError("no server")

    table = rows(run(world(writer=broken, budget=Budget(calls=200)), retriever, **many))
    assert "no such parameter" in table["infer_rules"]["outcome"]
    assert "score" in table["random_search"]
    with pytest.raises(UserError, match="no server"):
        run(world(writer=gone, budget=Budget(calls=200)), retriever, **many)


def test_optimizers_that_do_not_fit_are_rows_with_the_reason(world, retriever, make_examples):
    from programs.closed_book.cot import CoT

    here = world()
    sets = {"trainset": make_examples(6), "valset": make_examples(6, 100)}
    with here.context():
        compiled = compile(CoT(), here.task(options={"arms": "labeled"}, **sets), optimizer="race")
    assert rows(compiled)["labeled"]["outcome"].startswith("does not fit: ")
    assert set(rows(compiled)) == {"uncompiled", "random_search", "labeled"}


def test_an_unknown_arm_is_refused(world, retriever):
    with pytest.raises(UserError, match=r"The race has no arm 'x'. It has: random_search, labeled"):
        run(world(), retriever, options={"arms": "gepa,x"})


def test_the_sets_of_questions_are_nested_and_grow_to_all_that_are_not_held_back(world, retriever, many):
    here = world()
    with here.context():
        task = checked_task(RAG(retriever), here.task(options={"keep_one_in": 3, "fewest": 4}, **many), "race")
    rungs = plan(task, 9)
    assert [(rung.contenders, len(rung.trainset), len(rung.valset), rung.left) for rung in rungs] == [
        (9, 4, 4, 3), (3, 4, 4, 2), (1, 12, 12, 1)
    ]  # fmt: skip
    for smaller, larger in pairwise(rungs):
        assert smaller.valset == larger.valset[: len(smaller.valset)]
        assert smaller.trainset == larger.trainset[: len(smaller.trainset)]


def test_all_optimizers_of_the_catalog_but_the_composed_ones_are_arms(world, retriever, make_examples):
    from optimizers.teleprompters.catalog import OPTIMIZERS

    assert set(OPTIMIZERS) - set(ARMS) == {"better_together", "race"}
    assert all(ARMS[name] is OPTIMIZERS[name] for name in ARMS)
    here = world(budget=Budget(calls=400))
    compiled = run(here, retriever, options={}, trainset=make_examples(12), valset=make_examples(24, 100), threads=2)
    assert set(rows(compiled)) == {"uncompiled", *ARMS}
    assert "MAGIC" in compiled.program.reading.signature.instructions


def test_no_race_asks_for_more_than_it_says(world, retriever, make_examples):
    here, options = world(), {"arms": "bootstrap,infer_rules,copro", "keep_one_in": 2, "fewest": 2}
    sets = {"trainset": make_examples(6), "valset": make_examples(6, 100), "options": options}
    with here.context():
        task = checked_task(RAG(retriever), here.task(**sets), "race")
        estimate = get_optimizer("race").estimate(RAG(retriever), task)
    run(here, retriever, **sets)
    assert here.runs <= estimate.student + estimate.teacher
    assert len(here.prompt_engine.requests) <= estimate.prompt_calls


def test_an_arm_that_has_scored_nothing_gets_what_the_others_left(world, retriever, make_examples):
    """Ten calls each: random search pays for the labelled program, and bootstrapping needs fourteen for itself."""
    sets = {"trainset": make_examples(8), "valset": make_examples(9, 100)}  # one is held back
    options = {"arms": "labeled,bootstrap", "rungs": 1, "held_back": 0.12}
    compiled = run(world(budget=Budget(calls=8 + 3 * 10 + 5)), retriever, options=options, **sets)
    table = rows(compiled)
    assert [table[name]["sent"] for name in ("uncompiled", "random_search", "labeled", "bootstrap")] == [8, 10, 0, 14]
    assert table["bootstrap"]["n"] == 8
    assert compiled.stopped is None


def test_what_is_left_is_divided_equally_and_rounded_down():
    from optimizers.teleprompters.race.race import parts

    budget = Budget(calls=100, usd=1.0)
    with budget.reserve(tokens=1, calls=10) as booking:
        booking.usd = 0.25
    assert parts([budget], 4) == [{"calls": 22.0, "usd": 0.1875}]
    assert parts([budget], 2, [{"calls": 60.0}]) == [{"calls": 15.0, "usd": 0.375}]
    with budget.within(calls=30):
        assert parts([budget], 3)[0]["calls"] == 10.0
    assert parts([Budget()], 3) == [{}]
