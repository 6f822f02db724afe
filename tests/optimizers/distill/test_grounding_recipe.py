"""GenGround's recipe: what the teacher and the student see, and what is rejected."""

import json

import pytest

from corpora.questions import Question, SubQuestion
from optimizers.distill.genground import GroundingDistillation, seeds_of
from optimizers.distill.recipes import answer_is_right
from optimizers.distill.specs import GroundingSettings
from optimizers.distill.student import StudentPrompts
from optimizers.distill.trajectories import prompts_of
from optimizers.metrics.catalog import get_metric
from programs.genground import GenGround
from programs.lms.adapter import ChatForm, JsonForm
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.types import Passage

EVIDENCE = "The harbour master of Quillon is Ansa Merrow."
GOLD = {"p4": Passage(id="p4", title="Title 4", text=EVIDENCE)}
SINGLE = Question(id="n1", question="who is harbour master of quillon", answers=["Ansa Merrow"], gold_ids=["p4"])
AGREES = answer_is_right(get_metric("acc[substring]"))


@pytest.fixture
def distil(scripted, retriever, source, in_chat_form):
    """Return a function that distils one question, and the engine of its teacher."""

    def run(question=SINGLE, reply=None, *, corpus=GOLD, drafted="Bert Oyle", adapter=None, **settings):
        grounded = {"evidence": EVIDENCE, "answer": "Ansa Merrow"} if reply is None else reply

        def answer(system, user):
            if "from what you know" in system:
                return in_chat_form({"answer": drafted})
            return grounded if isinstance(grounded, str) else in_chat_form(grounded)

        engine = scripted(answer, adapter or ChatForm())
        program = GenGround(retriever)
        student = StudentPrompts(JsonForm(), prompts_of(program), "genground")
        recipe = GroundingDistillation(
            program, student, corpus, retriever, AGREES, "teacher:x", settings=GroundingSettings(**settings)
        )
        return recipe(question, source), engine

    return run


def test_the_teacher_sees_the_gold_alone_and_the_student_sees_it_among_noise(distil):
    made, engine = distil()
    (example,) = made.examples
    _, grounding = engine.prompts
    assert EVIDENCE in grounding
    assert "Filler" not in grounding
    assert "[[ ## draft ## ]]\nBert Oyle" in grounding
    prompt = example.messages[-1].content
    assert prompt.count("Filler sentence") == 2
    assert EVIDENCE in prompt
    assert json.loads(example.completion) == {"evidence": EVIDENCE, "answer": "Ansa Merrow"}
    assert (example.predictor, example.skill, example.labels) == ("grounding", "grounding", "teacher:x")


def test_the_place_of_the_gold_passage_says_nothing(distil):
    places = set()
    for number in range(30):
        made, _ = distil(SINGLE.model_copy(update={"id": f"n{number}"}))
        places.add(made.examples[0].messages[-1].content.partition(EVIDENCE)[0].count("Filler"))
    assert places == {0, 1, 2}


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("no field at all [[ ## other ## ]]\nx", "every_reply_parsed"),
        ({"evidence": "", "answer": "Ansa Merrow"}, "evidence_is_given"),
        ({"evidence": EVIDENCE, "answer": "unknown"}, "answer_is_given"),
        ({"evidence": "She rides a bicycle every morning", "answer": "Ansa Merrow"}, "evidence_is_quoted"),
        ({"evidence": EVIDENCE, "answer": "Bert Oyle"}, "answer_agrees_with_gold"),
    ],
)
def test_the_papers_filters(reply, rule, distil):
    made, _ = distil(reply=reply)
    assert (made.examples, dict(made.rejected_trajectories)) == ([], {rule: 1})


def test_a_longer_answer_that_contains_the_gold_agrees(distil):
    made, _ = distil(reply={"evidence": EVIDENCE, "answer": "It is Ansa Merrow"})
    assert len(made.examples) == 1


def test_a_gold_passage_must_be_at_hand_and_fit(distil):
    made, _ = distil(corpus={})
    assert dict(made.rejected_trajectories) == {"gold_passage_in_corpus": 1}
    long = {"p4": Passage(id="p4", text=f"{EVIDENCE} " + "and so on " * 400)}
    made, _ = distil(corpus=long, adapter=ChatForm(context_size=900))
    assert dict(made.rejected_trajectories) == {"no_prompt_cut": 1}


def test_empty_examples_have_no_passage_that_states_the_answer(distil):
    made, _ = distil(empty_share=1.0)
    full, empty = made.examples
    assert EVIDENCE in full.messages[-1].content
    assert "Ansa Merrow" not in empty.messages[-1].content
    assert json.loads(empty.completion) == {"evidence": "", "answer": "Bert Oyle"}
    assert empty.labels == "gold"
    assert len(distil()[0].examples) == 1


def test_hops_of_a_gold_decomposition_are_seeds_too():
    parts = [
        SubQuestion(question="Who is it?", answer="Ansa Merrow", gold_ids=["p4"]),
        SubQuestion(question="Where was Ansa Merrow born?", answer="Varn", gold_ids=["p5"]),
        SubQuestion(question="Unanswered?", gold_ids=["p6"]),
        SubQuestion(question="Of two?", answer="x", gold_ids=["p6", "p7"]),
    ]
    question = Question(id="m", question="Where?", answers=["Varn"], gold_ids=["p4", "p5"], sub_questions=parts)
    assert [(seed.sub_question, seed.gold_id) for seed in seeds_of(question)] == [
        ("Who is it?", "p4"), ("Where was Ansa Merrow born?", "p5")
    ]  # fmt: skip
    assert seeds_of(Question(id="m", question="Where?", answers=["Varn"], gold_ids=["p4", "p5"])) == []


def test_a_question_without_one_gold_passage_is_counted(distil):
    made, engine = distil(SINGLE.model_copy(update={"gold_ids": ["p4", "p5"]}))
    assert dict(made.rejected_trajectories) == {"one_gold_passage": 1}
    assert engine.requests == []


def test_a_program_without_grounding_is_refused(retriever):
    student = StudentPrompts(JsonForm(), prompts_of(RAG(retriever)), "rag")
    with pytest.raises(UserError, match="needs a program with the predictor 'grounding'"):
        GroundingDistillation(RAG(retriever), student, GOLD, retriever, AGREES, "teacher:x")


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"empty_share": 2.0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(UserError, match="must be a .*number from"):
        GroundingSettings(**settings)
