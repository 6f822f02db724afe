"""The generated benchmark: deterministic, complete, and answerable from its own gold passages."""

import pytest

from corpora.passages import read_passages
from corpora.questions import read_questions
from experiments.world.facts import make_world
from experiments.world.generate import generate, records
from experiments.world.grammar import compare, key, parse_question, value_of
from experiments.world.passage_text import parse_passage
from experiments.world.question_generator import true_answer
from signatures.common.errors import UserError


@pytest.fixture(scope="module")
def benchmark():
    return records(1200, seed=0)


def test_the_same_seed_gives_the_same_world_and_another_seed_another():
    assert records(50, seed=3) == records(50, seed=3)
    assert records(50, seed=3)[0] != records(50, seed=4)[0]


def test_a_thousand_questions_are_all_different(benchmark):
    questions = benchmark[1]
    assert len({question["question"] for question in questions}) == len(questions) == 1200
    assert {question["type"] for question in questions} == {
        "bridge-2", "bridge-3", "comparison", "bridge-comparison", "yes/no",
    }  # fmt: skip


def test_every_question_is_parsed_into_its_plan(benchmark):
    world = make_world(0)
    for question in benchmark[1]:
        plan = parse_question(question["question"])
        assert plan is not None
        assert true_answer(world, plan) == question["answers"][0]


def test_every_answer_follows_from_the_words_of_the_gold_passages_alone(benchmark):
    passages, questions = benchmark
    texts = {passage["id"]: f"[1] {passage['title']}: {passage['text']}" for passage in passages}
    for question in questions:
        stated = {
            (key(item.head), item.relation): item.value
            for passage_id in question["gold_ids"]
            for item in parse_passage(texts[passage_id])
        }

        def lookup(entity, relation, stated=stated):
            return stated.get((key(entity), relation))

        plan = parse_question(question["question"])
        if hasattr(plan, "left"):
            answer = compare(plan, value_of(plan.left, lookup), value_of(plan.right, lookup), lookup)
        else:
            answer = value_of(plan, lookup)
        assert answer == question["answers"][0]


def test_gold_sentences_state_the_sub_questions_answers(benchmark):
    sentences = {passage["id"]: passage["sentences"] for passage in benchmark[0]}
    for question in benchmark[1]:
        for (passage_id, number), step in zip(question["gold_sentences"], question["sub_questions"], strict=True):
            assert step["answer"] in sentences[passage_id][number]
            assert step["gold_ids"] == [passage_id]
        assert len(question["key_facts"]) == len(question["sub_questions"])


def test_passages_state_all_facts_of_the_world_and_nothing_else(benchmark):
    world = make_world(0)
    stated = [
        (key(item.head), item.relation, item.value)
        for passage in benchmark[0]
        for item in parse_passage(f"[1] {passage['title']}: {passage['text']}")
    ]
    assert sorted(stated) == sorted((head, relation, value) for (head, relation), value in world.facts.items())


def test_the_files_are_those_of_the_project(tmp_path):
    passages_file, questions_file = generate(tmp_path, questions=40, seed=1, dev_share=0.25)
    passages, questions = list(read_passages(passages_file)), read_questions(questions_file)
    known = {passage.id for passage in passages}
    assert len(questions) == 40
    assert sum(question.split == "dev" for question in questions) == 10
    assert all(set(question.gold_ids) <= known for question in questions)


@pytest.mark.parametrize(("questions", "dev_share"), [(0, 0.5), (10, 1.5), (10**6, 0.5)])
def test_numbers_out_of_range_are_refused(questions, dev_share):
    with pytest.raises(UserError, match="questions="):
        records(questions, seed=0, dev_share=dev_share)
