"""Evaluation questions and their gold passages stay out of training data."""

import pytest

from corpora.questions import Question, SubQuestion
from optimizers.distill.leakage import (
    NOTHING,
    Evaluation,
    asks_any,
    drop_leaked,
    leak_of,
    without_asked,
    without_leaks,
    without_retrieved,
    without_shown,
)
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.conftest import ListRetriever

HELD = [
    Question(id="e1", question="Who wrote  “The Fog”?", answers=["A"], gold_ids=["p1"]),
    Question(
        id="e2",
        question="Where was the author born?",
        gold_ids=["p2"],
        sub_questions=[SubQuestion(question="Who is it?", answer="x", gold_ids=["p3"])],
    ),
]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"question": "who wrote the fog"}, "same_question"),
        ({"question": "Who wrote the fog of war?"}, None),
        ({"sub_questions": [SubQuestion(question="Where was an author born?")]}, "same_sub_question"),
        ({"gold_ids": ["p9", "p2"]}, "same_gold_passage"),
        ({"sub_questions": [SubQuestion(question="New?", gold_ids=["p3"])]}, "same_gold_passage"),
        ({"context_ids": ["p1", "p2"]}, None),  # a distractor may be gold elsewhere
    ],
)
def test_what_is_a_leak(changes, why):
    question = Question(**{"id": "t1", "question": "What else?", "gold_ids": ["p9"], **changes})
    assert leak_of(question, Evaluation.of(HELD)) == why
    assert leak_of(question, NOTHING) is None


def test_gold_passages_of_other_corpora_are_known_by_their_text():
    ours = {"p1": Passage(id="p1", text="The Fog is a novel."), "p2": Passage(id="p2", text="Other.")}
    theirs = {"x": Passage(id="x", text="The fog is a novel"), "y": Passage(id="y", text="Unrelated.")}
    held = Evaluation.of(HELD, ours)
    assert leak_of(Question(id="t", question="New?", gold_ids=["x"]), held, theirs) == "same_gold_passage"
    assert leak_of(Question(id="t", question="New?", gold_ids=["y"]), held, theirs) is None
    assert leak_of(Question(id="t", question="New?", gold_ids=["x"]), held) is None


SENTENCE = "The Fog is a novel of 1975."
PASSAGE = "James Herbert wrote in London. The Fog is a novel of 1975. It was his second."


@pytest.mark.parametrize(
    ("theirs", "ours", "same"),
    [
        (SENTENCE, PASSAGE, True),  # a sentence that stands in a passage of the evaluation
        (PASSAGE, SENTENCE, True),  # a passage with a sentence of the evaluation
        ("the fog is a novel of 1975", PASSAGE, True),
        ("It was his second.", PASSAGE, False),  # four words stand in many passages
        ("The Fog is a novel of 1976.", PASSAGE, False),
        ("Of 1975. It was his second novel.", PASSAGE, False),
    ],
)
def test_a_sentence_of_a_gold_passage_is_gold(theirs, ours, same):
    held = Evaluation.of(HELD[:1], {"p1": Passage(id="p1", text=ours)})
    question = Question(id="t", question="New?", gold_ids=["x"])
    why = leak_of(question, held, {"x": Passage(id="x", text=theirs)})
    assert why == ("same_gold_passage" if same else None)


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        (f"[1] Herbert: {PASSAGE}\n\nWho?", True),
        (f"[2] {SENTENCE}\n\nWho?", True),
        ("[2] The Rats is a novel of 1974.\n\nWho?", False),
    ],
)
def test_examples_that_show_gold_of_an_evaluation_are_found(prompt, shown, example):
    held = Evaluation.of(HELD[:1], {"p1": Passage(id="p1", text=PASSAGE)})
    made = example(prompt)
    assert without_shown([made], held) == (([], 1) if shown else ([made], 0))
    assert without_shown([made], Evaluation.of(HELD)) == ([made], 0)


def test_the_first_sentence_of_a_gold_passage_is_found_behind_its_title(example):
    gold = Passage(id="p1", title="The Fog", text="The Fog is a novel of the year 1975. It was written by a baker.")
    held = Evaluation.of(HELD[:1], {"p1": gold})
    for shown in ("[1] The Fog: The Fog is a novel of the year 1975.", "- The Fog: It was written by a baker indeed."):
        made = example(f"[[ ## passages ## ]]\n{shown}\n\n[[ ## question ## ]]\nNew?")
        leaks = "novel" in shown
        assert without_shown([made], held) == (([], 1) if leaks else ([made], 0))


@pytest.mark.parametrize("title", ["The Fog", "the fog (novel)", "Fog: A Life (novel)"])
def test_another_edition_of_a_gold_article_is_known_by_its_title(title, example):
    held = Evaluation.of(HELD[:1], {"p1": Passage(id="p1", title=f"{title.partition(' (')[0]} (1975)", text=PASSAGE)})
    theirs = {"x": Passage(id="x", title=title, text="Wholly other words of another year on it."),
              "y": Passage(id="y", title="Fog Signal", text="Wholly other words of another year on it.")}  # fmt: skip
    for name, leaks in (("x", True), ("y", False)):
        question = Question(id="t", question="New?", gold_ids=[name])
        assert leak_of(question, held, theirs) == ("same_gold_article" if leaks else None)
        made = example(f"[[ ## passages ## ]]\n[2] {theirs[name].title}: {theirs[name].text}")
        assert without_shown([made], held) == (([], 1) if leaks else ([made], 0))


def test_evaluations_are_joined():
    both = Evaluation.of(HELD[:1]) | Evaluation.of(HELD[1:])
    assert both == Evaluation.of(HELD)


def test_questions_are_removed_and_counted():
    new = Question(id="t1", question="New?")
    screened = without_leaks([HELD[0], new, Question(id="t2", question="Newer?", gold_ids=["p2"])], Evaluation.of(HELD))
    assert screened.questions == [new]
    assert dict(screened.refused) == {"same_question": 1, "same_gold_passage": 1}


def test_questions_that_retrieve_a_gold_passage_of_an_evaluation_are_removed():
    found = [Passage(id=f"n{number}", text=f"Nothing {number}.") for number in range(10)]
    questions = [Question(id=f"t{number}", question=f"New {number}?") for number in range(2)]
    gold = Passage(id="p1", text="The Fog is a novel of 1975.")
    held = Evaluation.of(HELD, {"p1": gold})
    assert without_retrieved(questions, held, ListRetriever(found)) == (questions, {})
    assert without_retrieved(questions, held, ListRetriever([*found, gold])) == (questions, {})  # the eleventh
    for shown in (gold, Passage(id="x", text="the fog is a novel of 1975")):
        screened = without_retrieved(questions, held, ListRetriever([*found[:9], shown]))
        assert (screened.questions, dict(screened.refused)) == ([], {"evaluation_gold_is_retrieved": 2})


def test_examples_are_removed_by_their_questions(example):
    asked = {"q1": Question(id="q1", question="New?"), "q2": HELD[0]}
    kept, refused = drop_leaked([example("q1"), example("q2")], asked, Evaluation.of(HELD))
    assert [each.question_id for each in kept] == ["q1"]
    assert dict(refused) == {"same_question": 1}
    q3 = Question(id="q3", question="Newer?", gold_ids=["x"])
    held = Evaluation.of(HELD[:1], {"p1": Passage(id="p1", text=PASSAGE)})
    theirs = {"x": Passage(id="x", text=SENTENCE)}
    assert drop_leaked([example("q3")], {"q3": q3}, held, theirs) == ([], {"same_gold_passage": 1})
    with pytest.raises(UserError, match="'q3' of an example is unknown"):
        drop_leaked([example("q3")], asked, NOTHING)


@pytest.mark.parametrize(
    ("prompt", "completion", "leaks"),
    [
        ("[[ ## question ## ]]\nWho wrote the fog?\n\n[[ ## x ## ]]", "{}", True),
        ("Passages: none\nQuestion: who wrote “The Fog”", "a", True),
        ("[1] A: Someone asked: Who wrote the fog? Nobody knew.", "a", False),
        ("1. Who wrote the fog? -> A", "a", False),
        ("New?", '{"finished": false, "sub_question": "Who wrote The Fog?", "answer": "A"}', True),
        ("New?", "[[ ## sub_question ## ]]\nWho wrote The Fog?\n\n[[ ## answer ## ]]\nA", True),
        ("New?", '{"sub_question": "Who wrote it?", "steps": 3}', False),
        ("New?", '{"queries": ["fog author", "Who wrote The Fog?"]}', True),
        ("?", "?", False),
    ],
)
def test_examples_that_ask_an_evaluation_question_are_found(prompt, completion, leaks, example):
    made = example(prompt).model_copy(update={"completion": completion})
    assert asks_any(made, Evaluation.of(HELD)) is leaks
    assert not asks_any(made, NOTHING)
    assert without_asked([made], Evaluation.of(HELD)) == (([], 1) if leaks else ([made], 0))
