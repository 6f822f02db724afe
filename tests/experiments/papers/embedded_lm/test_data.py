"""No evaluation question is trained on, and the generated world is never more than half of a skill."""

import json
from collections import Counter
from pathlib import Path

import pytest

from corpora.datasets.heldback import HELD_BACK
from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, read_questions
from experiments.papers.embedded_lm import data, sources
from experiments.papers.embedded_lm.data import PLAN, limit_world
from experiments.papers.embedded_lm.sources import EVALUATION, SOURCES, Prepared
from optimizers.distill.examples import Example, Message
from optimizers.distill.gold.catalog import GOLD
from optimizers.distill.leakage import Evaluation
from signatures.text import normalize_answer
from signatures.types import Passage
from tests.conftest import ListRetriever


def test_the_plan_names_predictors_with_gold_and_sources():
    for (program, predictor), plan in PLAN.items():
        assert predictor in GOLD[program]
        assert set(plan) <= set(SOURCES)


def test_the_world_is_at_most_half_of_a_predictor():
    for plan in PLAN.values():
        assert plan.get("world", 0) <= sum(count for name, count in plan.items() if name != "world")


def test_the_world_is_at_most_half_of_what_a_predictor_gets():
    def made(number: int, predictor: str, source: str) -> Example:
        asked = (Message(role="user", content=f"{predictor} {source} {number}"),)
        return Example(messages=asked, completion="a", program="rag", predictor=predictor, skill="reading",
                       question_id=f"q{number}", source=source, licence="any", labels="gold")  # fmt: skip

    counts = {
        "reading": {"world": 30, "nq_open": 12, "qed": 5},
        "truth": {"world": 4},
        "ground": {"qed": 3, "world": 2},
    }
    examples = [
        made(number, predictor, source)
        for predictor, sources in counts.items()
        for source, count in sources.items()
        for number in range(count)
    ]
    kept = limit_world(examples, 0)
    assert kept == [example for example in examples if example in kept]
    found = Counter((example.predictor, example.source) for example in kept)
    assert found == {
        ("reading", "world"): 17, ("reading", "nq_open"): 12, ("reading", "qed"): 5, ("ground", "qed"): 3,
        ("ground", "world"): 2,
    }  # fmt: skip


def test_statements_become_passages(tmp_path):
    file = tmp_path / "evidence.jsonl"
    record = {"question": " Who? ", "answer": "Ann", "evidence": ["Ann did.", "Bob did not."], "type": "bridge"}
    file.write_text(json.dumps(record) + "\n")
    sources._convert_statements(SOURCES["hotpotqa-evidence"], file, tmp_path / "out")
    (made,) = read_questions(tmp_path / "out" / "questions.jsonl")
    corpus = {record.id: record for record in read_passages(tmp_path / "out" / "passages.jsonl")}
    assert (made.question, made.answers) == ("Who?", ["Ann"])
    assert [corpus[gold].text for gold in made.gold_ids] == ["Ann did.", "Bob did not."]


@pytest.mark.slow
def test_no_source_trains_on_what_any_evaluation_asks_or_needs(shared_data, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_index", lambda name, work: (None, _passages(name, work)))
    monkeypatch.setattr(sources, "_bm25", lambda name, work: ListRetriever([]))
    prepared = {name: next(iter(sources.prepare(shared_data, tmp_path, [name]))) for name in SOURCES}
    asked, gold = _evaluated(tmp_path)
    everything = "\n".join(f" {text} " for text in gold)
    assert len(asked) > 1500
    for name, each in prepared.items():
        assert len(each.questions) > 50
        assert each.dropped["held_back"] == HELD_BACK.get(name, 0)
        for one in each.questions:
            assert normalize_answer(one.question) not in asked
            texts = [normalize_answer(each.corpus[id].text) for id in one.gold_ids]
            assert gold.isdisjoint(texts)
            # A sentence of a passage that an evaluation needs; shorter ones stand in many passages.
            assert not any(len(text.split()) > 5 and f" {text} " in everything for text in texts), one.question
    # Eight questions of this source have sentences of HotpotQA's dev passages as their gold.
    assert prepared["hotpotqa-evidence"].dropped["same_gold_passage"] >= 8


def _evaluated(work: Path) -> tuple[set[str], set[str]]:
    """Return the questions and the gold texts of all evaluation sets and of all held-back questions, normalised."""
    evaluated = [(read_questions(path), path.parent) for path in work.glob("evaluation/*/questions.jsonl")]
    evaluated += [(sources.held_back_questions(work, name), work / name) for name in HELD_BACK]
    asked, gold = set(), set()
    for questions, folder in evaluated:
        path = folder / "passages.jsonl"
        corpus = {record.id: record for record in read_passages(path)} if path.is_file() else {}
        asked |= {normalize_answer(one.question) for one in questions}
        gold |= {normalize_answer(corpus[id].text) for one in questions for id in one.gold_ids if id in corpus}
    return asked, gold


def _passages(name: str, work: Path) -> list[PassageRecord]:
    files = [path for source in SOURCES.values() if source.pool == name for path in sources.passage_files(source, work)]
    return [record for path in files for record in read_passages(path)]


def test_no_example_shows_what_an_evaluation_needs(monkeypatch, tmp_path):
    texts = {
        "gold": "The chief engineer of the Marn line was Eve Lod of Veld.",
        "held": "The oldest mill of the Ossa valley was built by Tom Rue in 1804.",
        "other": "The town of Brill has a market on every second Monday of May.",
    }
    corpus = {id: PassageRecord(id=id, title=id, text=text) for id, text in texts.items()}
    evaluation = Evaluation.of([Question(id="e", question="Who built the mill?", gold_ids=["held"])], corpus)
    question = Question(id="q", question="Who was the chief engineer?", answers=["Eve Lod"], gold_ids=["gold"])
    found = [Passage(id=id, title=id, text=text) for id, text in texts.items()]

    def made(retrieved):
        prepared = Prepared(SOURCES["hotpotqa"], [question], corpus, ListRetriever(retrieved), {}, evaluation)
        return data.examples_of(prepared, 0, ["rag"])

    monkeypatch.setattr(data, "open_reranker", lambda retrieve, name: retrieve)
    monkeypatch.setattr(data, "SIZES", (2,))
    assert len(made([found[0], found[2]])) == 1
    assert made([found[0], found[1]]) == []


def test_the_evaluation_sets_are_no_sources():
    assert not {file for _, file in EVALUATION} & {source.file for source in SOURCES.values()}
