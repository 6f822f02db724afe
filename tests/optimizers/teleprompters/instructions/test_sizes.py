"""Estimates against what is counted, at settings larger than the smallest."""

import pytest

from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.compile import checked_task, compile
from programs.genground import GenGround
from programs.single_step.rag import RAG


def counted(world, retriever, optimizer, student=None, *, made=None, **fields):
    """Return the estimate, the program runs and the calls of the prompt LM of one compilation."""
    here, student = world(**made or {}), student or RAG(retriever)
    with here.context():
        task = here.task(optimizer, **fields)
        estimate = get_optimizer(optimizer).estimate(student, checked_task(student, task, optimizer))
        compiled = compile(student, task, optimizer=optimizer)
    assert not estimate.teacher or compiled.tried <= estimate.teacher
    runs = here.runs - (compiled.tried if estimate.teacher else 0)  # those of the teacher are counted, too
    return estimate, runs, len(here.prompt_engine.requests)


@pytest.mark.slow
@pytest.mark.parametrize(("breadth", "depth"), [(2, 1), (3, 2), (4, 3)])
def test_copro_takes_exactly_what_it_says(breadth, depth, world, retriever):
    options = {"breadth": breadth, "depth": depth}
    for student in (RAG(retriever), GenGround(retriever, k=2, batch_size=2)):
        estimate, runs, prompts = counted(world, retriever, "copro", student, options=options)
        assert (runs, prompts) == (estimate.student, estimate.prompt_calls)


def test_infer_rules_takes_exactly_what_it_says(world, retriever):
    options = {"num_candidates": 3}
    estimate, runs, prompts = counted(world, retriever, "infer_rules", options=options, threads=1)
    assert (estimate.student, estimate.prompt_calls) == (4 * 6, 3)
    assert runs == estimate.student
    assert prompts == estimate.prompt_calls


@pytest.mark.parametrize(
    "options",
    [
        {"num_candidates": 3, "num_trials": 4},
        {"num_candidates": 4, "num_trials": 7, "minibatch": True, "minibatch_size": 3, "minibatch_full_eval_steps": 2},
        {"num_candidates": 3, "num_trials": 5, "minibatch": True, "minibatch_size": 4, "minibatch_full_eval_steps": 5},
        {"num_candidates": 2, "num_trials": 2, "program_aware_proposer": False, "data_aware_proposer": False},
    ],
)
def test_mipro_takes_exactly_what_it_says(options, world, retriever, make_examples):
    estimate, runs, prompts = counted(world, retriever, "mipro", options=options, trainset=make_examples(12), threads=1)
    assert runs == estimate.student
    assert prompts == estimate.prompt_calls


def test_mipro_goes_on_when_every_combination_has_been_evaluated(world, retriever):
    options = {"num_candidates": 2, "num_trials": 9, "minibatch": True, "minibatch_size": 2}
    options |= {"minibatch_full_eval_steps": 1}
    estimate, runs, _ = counted(world, retriever, "mipro", options=options, max_demos=0)
    assert runs <= estimate.student


@pytest.mark.parametrize("auto", ["light", "medium", "heavy"])
def test_the_sizes_of_mipro_by_name_are_dspys(auto, world, retriever):
    sizes = {"light": (6, 3, 10), "medium": (12, 6, 18), "heavy": (18, 9, 27)}
    from optimizers.teleprompters.instructions.mipro import size_of

    here = world()
    with here.context():
        size = size_of(RAG(retriever), checked_task(RAG(retriever), here.task(options={"auto": auto}), "mipro"))
    assert (size.demo_sets, size.instructions, size.trials) == sizes[auto]


@pytest.mark.parametrize("limit", [1, 6, 7, 20, 40])
@pytest.mark.parametrize("good", [0, 100])
def test_gepa_runs_no_more_than_it_says_and_no_less_than_its_limit(limit, good, world, writer, retriever):
    """What stanfordnlp/dspy#10245 asks for: the limit is checked between steps, so that a step runs past it."""
    options = {"max_metric_calls": limit}
    estimate, runs, prompts = counted(world, retriever, "gepa", options=options, made={"writer": writer(good)})
    assert max(limit, 6) <= runs <= estimate.student
    assert prompts <= estimate.prompt_calls


def test_gepa_with_all_predictors_at_once_asks_for_one_proposal_each(world, retriever):
    options = {"max_metric_calls": 20, "component_selector": "all"}
    student = GenGround(retriever, k=2, batch_size=2)
    estimate, runs, prompts = counted(world, retriever, "gepa", student, options=options)
    assert runs <= estimate.student
    assert 0 < prompts <= estimate.prompt_calls


def test_simba_runs_what_it_says(world, retriever):
    options = {"bsize": 4, "num_candidates": 3, "max_steps": 2}
    estimate, runs, prompts = counted(world, retriever, "simba", options=options)
    assert runs == estimate.student
    assert 0 < prompts <= estimate.prompt_calls
