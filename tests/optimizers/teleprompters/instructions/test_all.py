"""What every optimizer of instructions must do."""

import pytest

from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.compile import checked_task, compile
from programs.genground import GenGround
from programs.lms.calls.budget import Budget
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.genground import GroundAnswer
from signatures.reading import ReadAnswer

OPTIMIZERS = ("copro", "mipro", "simba", "gepa", "infer_rules")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_instruction_that_helps_is_found_and_kept(optimizer, world, retriever):
    here = world()
    with here.context():
        compiled = compile(RAG(retriever), here.task(optimizer), optimizer=optimizer)
        assert compiled.program("Question 1?").answer == "right"
        again = compiled.program.deepcopy()
        again.reading.signature = again.reading.signature.with_instructions("No help.")
        assert again("Question 1?").answer == "wrong"
    assert "MAGIC" in compiled.program.reading.signature.instructions
    chosen = next(each for each in compiled.candidates if each.label == compiled.chosen)
    assert chosen.complete
    assert chosen.mean == 1.0
    assert compiled.stopped is None


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_nothing_is_changed_but_the_copy_that_is_returned(optimizer, world, retriever):
    here = world()
    student = GenGround(retriever, k=2, batch_size=2)
    before, shared = student.dump_state(), (ReadAnswer.instructions, GroundAnswer.instructions)
    with here.context():
        compile(student, here.task(optimizer), optimizer=optimizer)
    assert student.dump_state() == before
    assert (ReadAnswer.instructions, GroundAnswer.instructions) == shared
    assert "rollout_id" not in here.lm.kwargs


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_estimate_is_the_most_that_is_asked_for(optimizer, world, retriever, capsys):
    here = world()
    student = RAG(retriever)
    with here.context():
        task = here.task(optimizer)
        estimate = get_optimizer(optimizer).estimate(student, checked_task(student, task, optimizer))
        compile(student, task, optimizer=optimizer)
    assert 0 < here.runs <= estimate.student + estimate.teacher
    assert 0 < len(here.prompt_engine.requests) <= estimate.prompt_calls
    assert len(here.task_engine.requests) <= estimate.student + estimate.teacher
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_seed_gives_the_same_program_at_any_width_and_from_the_cache(optimizer, world, retriever):
    states = []
    for threads in (1, 4):
        here = world()
        with here.context():
            task = here.task(optimizer, threads=threads, seed=0)
            states.append(compile(RAG(retriever), task, optimizer=optimizer).program.dump_state())
            asked = len(here.task_engine.requests), len(here.prompt_engine.requests)
            states.append(compile(RAG(retriever), task, optimizer=optimizer).program.dump_state())
            assert (len(here.task_engine.requests), len(here.prompt_engine.requests)) == asked
    assert states[0] == states[1] == states[3]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("calls", [3, 8])
def test_a_spent_budget_ends_the_work_with_the_best_complete_candidate(optimizer, calls, world, retriever):
    here = world(budget=Budget(calls=calls))
    student = RAG(retriever)
    with here.context():
        task = here.task(optimizer)
        compiled = compile(student, task, optimizer=optimizer)
    sent = len(here.task_engine.requests) + len(here.prompt_engine.requests)
    assert sent <= calls
    assert compiled.stopped is not None
    assert "The budget of" in compiled.stopped
    complete = [each for each in compiled.candidates if each.complete]
    best = max(complete, key=lambda each: each.mean).program if complete else student
    assert compiled.program.dump_state() == best.dump_state()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("gone", ["task", "prompt"])
def test_an_lm_that_is_gone_ends_the_work(optimizer, gone, world, retriever):
    def dead(system, user):
        raise UserError("no server")

    here = world(reply=dead) if gone == "task" else world(writer=dead)
    with here.context(), pytest.raises(UserError, match="no server"):
        compile(RAG(retriever), here.task(optimizer), optimizer=optimizer)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_prompt_lm_that_cannot_write_leaves_the_program_as_it_was(optimizer, world, retriever):
    here = world(writer=lambda system, user: "no JSON at all")
    student = GenGround(retriever, k=2, batch_size=2)
    with here.context():
        compiled = compile(
            student, here.task(optimizer, max_demos=0 if optimizer == "mipro" else 2), optimizer=optimizer
        )
    for name, predictor in compiled.program.named_predictors():
        assert predictor.signature.instructions == dict(student.named_predictors())[name].signature.instructions


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_demonstrations_have_all_outputs(optimizer, world, retriever):
    here = world()
    with here.context():
        compiled = compile(GenGround(retriever, k=2, batch_size=2), here.task(optimizer), optimizer=optimizer)
    for candidate in compiled.candidates:
        for predictor in candidate.program.predictors():
            fields = {*predictor.signature.input_fields, *predictor.signature.output_fields}
            assert all(fields <= set(demo.keys()) for demo in predictor.demos)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_prompt_lm_is_the_task_lm_by_default(optimizer, world, writer, retriever):
    write = writer()
    here = world(reply=lambda system, user: {**write(system, user), "answer": "wrong"})
    with here.context():
        compile(RAG(retriever), here.task(optimizer, prompt_lm=None), optimizer=optimizer)
    assert write.calls > 0
    assert here.prompt_engine.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_calls_of_a_candidate_are_those_of_an_uninterrupted_compilation(optimizer, world, retriever):
    def candidates(here, **fields):
        with here.context():
            made = compile(RAG(retriever), here.task(optimizer, threads=1, **fields), optimizer=optimizer)
        return [(each.label, each.mean, each.n_calls) for each in made.candidates], made

    whole, made = candidates(world())
    here, known = world(budget=Budget(calls=int(made.costs["calls"] - made.costs["cached_calls"]) // 2)), []
    assert candidates(here, on_candidate=known.append)[1].stopped
    here.lm.budget.limits["calls"] = None
    resumed, made = candidates(here, known={each.label: each for each in known})
    assert made.stopped is None
    assert resumed == whole
