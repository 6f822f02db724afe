"""No evaluation question is trained on, and the generated world is never more than half of a skill."""

import json
from pathlib import Path

from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, read_questions
from experiments.papers import embedded_lm_sources as sources
from experiments.papers.embedded_lm_data import PLAN
from experiments.papers.embedded_lm_sources import EVALUATION, SOURCES, Guard, gold_texts
from optimizers.distill.gold.catalog import GOLD
from signatures.text import normalize_answer

CORPUS = {name: PassageRecord(id=name, text=f"The text of {name}.") for name in ("a", "b", "c", "d")}


def question(name: str, gold: str) -> Question:
    return Question(id=name, question=f"What is {name}?", answers=["x"], gold_ids=[gold])


def test_the_guard_leaves_out_evaluation_questions_and_passages():
    evaluation = [(question("q1", "a"), ["The text of a."])]
    asked_again = question("other", "b").model_copy(update={"question": "what is  Q1"})
    kept, dropped = Guard(evaluation).filtered([asked_again, question("q2", "a"), question("q3", "c")], CORPUS, 0)
    assert [each.id for each in kept] == ["q3"]
    assert dropped == {"held back": 0, "evaluation question": 1, "evaluation passage": 1}


def test_a_held_back_question_takes_its_passages_with_it():
    questions = [question(f"q{number}", "abcd"[number // 2]) for number in range(8)]
    kept, dropped = Guard([]).filtered(questions, CORPUS, 2)
    assert dropped["held back"] == 2
    assert len(kept) == 6 - dropped["evaluation passage"]
    gold = {each.gold_ids[0] for each in questions if each not in kept}
    assert gold.isdisjoint(each.gold_ids[0] for each in kept)


def test_the_plan_names_predictors_with_gold_and_sources():
    for (program, predictor), plan in PLAN.items():
        assert predictor in GOLD[program]
        assert set(plan) <= set(SOURCES)


def test_the_world_is_at_most_half_of_a_predictor():
    for plan in PLAN.values():
        assert plan.get("world", 0) <= sum(count for name, count in plan.items() if name != "world")


def test_statements_become_passages(tmp_path):
    file = tmp_path / "evidence.jsonl"
    record = {"question": " Who? ", "answer": "Ann", "evidence": ["Ann did.", "Bob did not."], "type": "bridge"}
    file.write_text(json.dumps(record) + "\n")
    sources._convert_statements(SOURCES["hotpotqa-evidence"], file, tmp_path / "out")
    (made,) = read_questions(tmp_path / "out" / "questions.jsonl")
    corpus = {record.id: record for record in read_passages(tmp_path / "out" / "passages.jsonl")}
    assert (made.question, made.answers) == ("Who?", ["Ann"])
    assert gold_texts(made, corpus) == ["Ann did.", "Bob did not."]


def test_no_source_trains_on_an_evaluation_set(shared_data, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_index", lambda name, work: (None, _passages(name, work)))
    asked: set[str] = set()
    gold: set[str] = set()
    prepared = list(sources.prepare(shared_data, tmp_path))
    for one, texts in sources._evaluation(shared_data, tmp_path):
        asked.add(normalize_answer(one.question))
        gold.update(map(normalize_answer, texts))
    for each in prepared:
        assert len(each.questions) > 50
        if each.source.name in ("2wikimultihopqa", "musique"):
            held = sources.held_back_questions(tmp_path, each.source.name)
            assert len(held) == each.dropped["held back"]
            asked |= {normalize_answer(one.question) for one in held}
            gold |= {normalize_answer(text) for one in held for text in gold_texts(one, each.corpus)}
    assert len(asked) > 1500
    for each in prepared:
        for one in each.questions:
            assert normalize_answer(one.question) not in asked
            assert gold.isdisjoint(map(normalize_answer, gold_texts(one, each.corpus)))


def _passages(name: str, work: Path) -> list[PassageRecord]:
    files = [
        path for source in SOURCES.values() if source.pool == name for path in sources._passage_files(source, work)
    ]
    return [record for path in files for record in read_passages(path)]


def test_the_evaluation_sets_are_no_sources():
    assert not {file for _, file in EVALUATION} & {source.file for source in SOURCES.values()}
