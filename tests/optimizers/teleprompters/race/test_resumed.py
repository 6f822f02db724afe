"""A race under a budget that is stopped and resumed ends as one that is not."""

import pytest

from optimizers.teleprompters.compile import compile
from programs.lms.calls.budget import Budget
from programs.lms.calls.control import Stopped, controlled
from programs.single_step.rag import RAG

pytestmark = pytest.mark.slow

OPTIONS = {"arms": "bootstrap,infer_rules", "keep_one_in": 2, "fewest": 4}
PAID = ("calls", "tokens", "usd")
LIMITS = ({"calls": 50}, {"tokens": 9_000})


def raced(here, retriever, make_examples):
    sets = {"trainset": make_examples(8), "valset": make_examples(16, 100)}
    with here.context():
        return compile(RAG(retriever), here.task(options=OPTIONS, threads=1, **sets), optimizer="race")


def result(compiled):
    """Return the race without what depends on how much of it came from the cache."""
    race = compiled.details["race"]
    rows = [{key: row[key] for key in row if key not in ("sent", "tokens", "usd")} for row in race["rows"]]
    return compiled.program.dump_state(), rows, race["winner"], race["why"], compiled.stopped


def stopped_after(here, calls, *args):
    """Run a race until so many calls were answered, as Ctrl-C ends it."""
    engines = (here.task_engine, here.prompt_engine)
    answered = [engine.complete for engine in engines]
    with controlled() as control:

        def counting(complete):
            def asked(request):
                if sum(len(engine.requests) for engine in engines) == calls - 1:
                    control.stop()
                return complete(request)

            return asked

        for engine, complete in zip(engines, answered, strict=True):
            engine.complete = counting(complete)
        with pytest.raises(Stopped):
            raced(here, *args)
    for engine, complete in zip(engines, answered, strict=True):
        engine.complete = complete


def resumed(here, spent, limits, *args):
    """Go on as another session does: with a budget that knows what was spent."""
    budget = Budget(**limits)
    budget.carry(**{name: spent[name] for name in PAID})
    here.lm.budget = here.prompt_lm.budget = budget
    return raced(here, *args)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_resumed_race_ends_as_one_that_was_not_stopped(limits, world, retriever, make_examples):
    whole = world(budget=Budget(**limits))
    expected = result(raced(whole, retriever, make_examples))
    sent = whole.lm.budget.spent["calls"]
    for calls in (sent // 2, sent - 3):
        here = world(budget=Budget(**limits))
        stopped_after(here, calls, retriever, make_examples)
        spent = here.lm.budget.spent
        assert spent["calls"] == calls
        assert result(resumed(here, spent, limits, retriever, make_examples)) == expected
        assert {name: here.lm.budget.spent[name] for name in PAID} == {
            name: whole.lm.budget.spent[name] for name in PAID
        }
