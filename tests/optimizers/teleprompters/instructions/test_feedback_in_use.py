"""What the prompt LM is told: GEPA and SIMBA show feedback in words, and replies that could not be read."""

from pathlib import Path

import dspy
import pytest

from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.instructions.prompt_lm import shown
from programs.genground import GenGround
from programs.single_step.rag import RAG
from signatures.types import Hop, Passage
from tests.conftest import load_module

SMALLEST = load_module(Path(__file__).with_name("smallest.py")).SMALLEST


def asked(here):
    return "\n".join(request.messages[-1].text for request in here.prompt_engine.requests)


def test_gepa_is_told_what_was_wrong_in_words(world, make_examples, retriever):
    here = world()
    with here.context():
        trainset = make_examples(6, gold_ids=["p99"])
        compile(RAG(retriever), here.task("gepa", trainset=trainset), optimizer="gepa")
    told = asked(here)
    assert "Needed and not retrieved: p99." in told
    assert "This call of reading: None of the passages needed was among those it saw." in told
    assert '\\"wrong\\"; expected is \\"right\\"' in told


def test_gepa_is_told_of_replies_that_the_strategy_went_on_without(world, retriever):
    def unreadable_quotes(system, user):
        if "evidence" in system:
            return "I would rather not."
        return {"finished": "1. " in user, "sub_question": "Who is the harbour master?", "answer": "wrong"}

    here = world(reply=unreadable_quotes)
    options = {"max_metric_calls": 30, "component_selector": "all"}
    with here.context():
        compile(GenGround(retriever, k=2, batch_size=2), here.task(options=options), optimizer="gepa")
    told = asked(here)
    assert "I would rather not." in told
    assert "This reply could not be read. It must give these fields and no more: evidence, answer." in told


def test_gepa_takes_the_feedback_of_the_task(world, retriever):
    def own(example, prediction, trace=None, pred_name=None, pred_trace=None):
        value = float(prediction.answer == "right")
        return value if pred_name is None else dspy.Prediction(score=value, feedback=f"Words about {pred_name}.")

    here = world()
    with here.context():
        compile(RAG(retriever), here.task("gepa", feedback=own), optimizer="gepa")
    assert "Words about reading." in asked(here)


def test_simba_is_told_the_reason_of_a_score(world, make_examples, retriever):
    here = world()
    with here.context():
        task = here.task("simba", trainset=make_examples(6, gold_ids=["p99"]), max_demos=0)
        compile(RAG(retriever), task, optimizer="simba")
    assert "Needed and not retrieved: p99." in asked(here)


def test_mipro_honours_the_seed_0(world, retriever):
    prompts = []
    for seed in (0, 9, 0):
        here = world()
        with here.context():
            compile(RAG(retriever), here.task(options={"num_candidates": 3, "num_trials": 2}, seed=seed),
                    optimizer="mipro")  # fmt: skip
        prompts.append([(each.messages[-1].text, each.config.seed) for each in here.prompt_engine.requests])
    assert prompts[0] == prompts[2]
    assert prompts[0] != prompts[1]


def test_mipro_shows_the_proposer_questions_and_answers_but_no_ids(world, make_examples, retriever):
    here = world()
    with here.context():
        compile(RAG(retriever), here.task("mipro", trainset=make_examples(6, gold_ids=["p99"])), optimizer="mipro")
    assert "Question 3?" in asked(here)
    assert "p99" not in asked(here)


def test_a_proposal_for_one_seed_is_not_that_of_another(world, retriever):
    for optimizer in ("copro", "infer_rules", "gepa"):
        seeds = []
        for seed in (0, 1):
            here = world()
            with here.context():
                compile(RAG(retriever), here.task(optimizer, seed=seed), optimizer=optimizer)
            seeds.append({request.config.seed for request in here.prompt_engine.requests})
        assert not seeds[0] & seeds[1]


def test_values_are_shown_as_in_other_prompts_and_cut():
    passages = [Passage(id="1", title="Fog", text="A cloud."), Passage(id="2", text="x" * 999)]
    text = shown({"passages": passages, "hops": [Hop(question="Who?", answer="Ansa")], "n": 3})
    assert text["passages"].startswith("[1] Fog: A cloud.\n[2] xxx")
    assert len(text["passages"]) < 500
    assert text["hops"] == "[1] Who? -> Ansa"
    assert text["n"] == "3"


@pytest.mark.parametrize("optimizer", SMALLEST)
def test_a_prompt_lm_at_temperature_0_gets_no_samples_to_tell_apart(optimizer, world, retriever, recwarn, capsys):
    here = world()
    for lm in (here.lm, here.prompt_lm):
        lm.kwargs["temperature"] = 0.0
    with here.context():
        compile(RAG(retriever), here.task(optimizer), optimizer=optimizer)
    assert [str(each.message) for each in recwarn if "rollout_id" in str(each.message)] == []
    assert capsys.readouterr() == ("", "")
