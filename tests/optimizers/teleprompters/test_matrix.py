"""Every program with a sixth of the optimizers, and these with a sixth of the programs, at the smallest settings.

What is compiled is frozen and loaded, and sends the same prompts.
"""

import uuid
from pathlib import Path

import dspy
import pytest

from optimizers.teleprompters.catalog import OPTIMIZERS, listed
from optimizers.teleprompters.compile import checked_task, compile
from optimizers.teleprompters.task import Task
from programs.artifact import freeze, load
from programs.catalog import PROGRAMS, build
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from signatures.common.errors import UserError
from tests.conftest import ScriptedEngine, load_module
from tests.programs.obliging import obliging

tasks = load_module(Path(__file__).with_name("tasks.py"))
SMALLEST = {
    **tasks.SMALLEST,
    "random_search": {"candidates": 1},
    "ensemble": {"candidates": 1, "size": 2},
    "gepa": {"max_metric_calls": 8},
    "better_together": {"strategy": "bootstrap -> bootstrap"},
}
SHORT = {  # knobs with which a question takes few calls
    "genground": {"k": 2, "batch_size": 2, "max_hops": 2},
    "multihop": {"max_hops": 2, "k": 2},
    "ircot": {"max_sentences": 2, "k": 2},
    "iter_retgen": {"k": 2},
    "self_ask": {"max_hops": 2, "k": 2},
    "flare": {"max_sentences": 2},
    "adaptive_rag": {"max_sentences": 2, "k": 2, "k_several": 2},
    "searchain": {"max_rounds": 2, "max_hops": 2},
    "cov_rag": {"k": 2},
    "self_completion": {"k": 2},
    "retro_rag": {"k": 2},
    "rag": {"k": 2},
    "grg": {"k": 2},
    "cot_sc": {"samples": 2},
    "react": {"max_steps": 2, "k": 2},
    "search_r1": {"max_turns": 1, "k": 2},
    "search_o1": {"max_turns": 2, "k": 2},
    "a_rag": {"max_turns": 2, "k": 2},
    "corag": {"max_hops": 1, "k": 2, "final_k": 2},
}
# Pairs that do not fit, with a word of the reason; all others must compile.
MISFITS = {
    ("cot", "labeled"): "no labels for the outputs",
    ("cot_sc", "labeled"): "no labels for the outputs",
    ("iter_retgen", "labeled"): "no labels for the outputs",
    ("multihop", "labeled"): "no labels for the outputs",
    ("react", "labeled"): "no labels for the outputs",
    ("search_r1", "labeled"): "no labels for the outputs",
    ("a_rag", "labeled"): "no labels for the outputs",
    ("search_o1", "labeled"): "no labels for the outputs",
}


# A program meets every sixth optimizer, its neighbour the next ones; all are bootstrapped; what does not fit is tried.
PAIRS = [
    (name, optimizer)
    for row, name in enumerate(PROGRAMS)
    for column, optimizer in enumerate(OPTIMIZERS)
    if (row + column) % 6 == 0 or optimizer == "bootstrap" or (name, optimizer) in MISFITS
]


def writing(system, user):
    """Reply to whatever a program or a writer of instructions asks."""
    reply = obliging(system, user)
    if isinstance(reply, str):
        return reply
    written = (
        "proposed_instruction", "new_instruction", "natural_language_rules", "observations", "summary",
        "program_description", "module_description", "discussion",
    )  # fmt: skip
    return {**dict.fromkeys(written, "Answer briefly."), "module_advice": {}, **reply}


def answered(example, prediction):
    return float("Ansa" in prediction.answer and int(example.id.removeprefix("q")) % 2 == 0)


def task_for(optimizer, prompt_lm):
    steps = [{"question": "Who built it?", "answer": "Ansa"}]
    return Task(
        tasks.examples(4, sub_questions=steps),
        answered,
        valset=tasks.examples(2, 10),
        max_demos=1,
        threads=2,
        prompt_lm=prompt_lm,
        similarity=tasks.SharedWords(),
        options=SMALLEST.get(optimizer, {}),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "optimizer"), PAIRS)
def test_a_program_is_compiled_by_an_optimizer_or_told_why_not(name, optimizer, retriever, tmp_path):
    student = build(name, retriever, **SHORT.get(name, {}))
    engine = ScriptedEngine(writing)
    lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, cache=False)
    writer = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, cache=False)
    task, before = task_for(optimizer, writer), student.dump_state()
    with dspy.context(lm=lm, adapter=JsonForm(), disable_history=True):
        if (name, optimizer) in MISFITS:
            with pytest.raises(UserError, match="does not fit this program: .+") as refused:
                compile(student, task, optimizer=optimizer)
            assert engine.requests == []
            assert "labels" in str(refused.value) or "outputs" in str(refused.value)
            return
        compiled = compile(student, task, optimizer=optimizer)
        made = len(engine.requests)
        compiled.program(question="Question 3?")
        asked = sorted(str(request.messages) for request in engine.requests[made:])  # in parallel in any order
        freeze(compiled.program, tmp_path / "artifact")
        loaded = load(tmp_path / "artifact", retriever, similarity=task.similarity)
        again = len(engine.requests)
        loaded(question="Question 3?")
    if optimizer == "bootstrap":
        assert any(predictor.demos for predictor in compiled.program.predictors())
        assert loaded.dump_state() == compiled.program.dump_state()
    assert student.dump_state() == before
    assert compiled.stopped is None
    assert compiled.costs["calls"] == made
    runs = OPTIMIZERS[optimizer].estimate(student, checked_task(student, task, optimizer))
    assert made <= (runs.student + runs.teacher) * student.max_calls() + runs.prompt_calls
    assert asked == sorted(str(request.messages) for request in engine.requests[again:])
    assert len(asked) <= compiled.program.max_calls()
    if OPTIMIZERS[optimizer].compares and optimizer != "race":  # two questions are too few to decide a race
        assert compiled.chosen in [each.label for each in compiled.candidates if each.complete]


def test_the_listing_says_what_does_not_fit_and_why():
    misfits = {
        (program, optimizer): reason
        for optimizer, row in listed().items()
        for program, reason in row["misfits"].items()
    }
    assert misfits.keys() == MISFITS.keys()
    assert all(part in misfits[pair] for pair, part in MISFITS.items())
