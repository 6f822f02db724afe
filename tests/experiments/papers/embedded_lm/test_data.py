"""No evaluation question is trained on, and the generated world is never more than half of a skill."""

import json
from collections import Counter
from pathlib import Path

import pytest
import ujson

from corpora.datasets.heldback import HELD_BACK
from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, SubQuestion, read_questions
from experiments.papers.embedded_lm import conversion, data, plan, sources
from experiments.papers.embedded_lm.data import limit_world
from experiments.papers.embedded_lm.licences import check_licence
from experiments.papers.embedded_lm.plan import EVIDENCE_FIRST, PLAN
from experiments.papers.embedded_lm.sources import EVALUATION, SOURCES, Prepared
from optimizers.distill.examples import Example, Message, read_examples
from optimizers.distill.gold.catalog import GOLD
from optimizers.distill.leakage import Evaluation
from signatures.common.errors import UserError
from signatures.text import normalize_answer
from signatures.types import Passage
from tests.conftest import ListRetriever


def test_the_plan_names_predictors_with_gold_and_sources():
    for (program, predictor), counts in PLAN.items():
        assert predictor in GOLD[program]
        assert set(counts) <= set(SOURCES)


def test_the_world_is_at_most_half_of_a_predictor():
    for counts in PLAN.values():
        assert counts.get("world", 0) <= sum(count for name, count in counts.items() if name != "world")


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


@pytest.mark.slow
def test_no_source_trains_on_what_any_evaluation_asks_or_needs(shared_data, tmp_path, monkeypatch):
    more = shared_data.parent / "training_data"
    if not more.is_dir():
        pytest.skip("the further training data (../shared/training_data) is not beside this checkout")
    monkeypatch.setattr(sources, "_index", lambda name, work, retriever: (None, _passages(name, work)))
    monkeypatch.setattr(sources, "_bm25", lambda name, work: ListRetriever([]))
    # All are screened alike; composing takes longer than the rest.
    composed = conversion._composed
    monkeypatch.setattr(conversion, "_composed", lambda passages, most: composed(passages, most // 5))
    prepared = {each.source.name: each for each in sources.prepare(shared_data, tmp_path, list(SOURCES), more)}
    assert set(prepared) == set(SOURCES)
    asked, gold = _evaluated(tmp_path)
    runs = {run for text in gold for run in _runs(text)}
    checked = set[str]()  # texts: questions share them
    assert len(asked) > 1500
    for name, each in prepared.items():
        assert len(each.questions) > 50
        assert each.dropped["held_back"] == HELD_BACK.get(name, 0)
        for one in each.questions:
            assert normalize_answer(one.question) not in asked
            texts = {each.corpus[id].text for id in one.gold_ids} - checked
            checked |= texts
            for text in map(normalize_answer, texts):
                assert text not in gold
                # A sentence of a passage that an evaluation needs; shorter ones stand in many passages.
                found = _runs(text)[:1]
                assert not (found and found[0] in runs and any(f" {text} " in f" {other} " for other in gold)), one
    # Eight questions of this source have sentences of HotpotQA's dev passages as their gold.
    assert prepared["hotpotqa-evidence"].dropped["same_gold_passage"] >= 8


def _runs(text: str) -> list[str]:
    """Return all runs of six words: a longer text that has none of another is no part of it, which is found fast."""
    words = text.split()
    return [" ".join(words[place : place + 6]) for place in range(len(words) - 5)]


def _evaluated(work: Path) -> tuple[set[str], set[str]]:
    """Return the questions and the gold texts of all evaluation sets and of all held-back questions, normalised."""
    evaluated = [(read_questions(path), path.parent) for path in work.glob("evaluation/*/questions.jsonl")]
    evaluated += [(sources.held_back_questions(work, name), work / name) for name in HELD_BACK]
    asked, gold = set(), set()
    for questions, folder in evaluated:
        path = folder / "passages.jsonl"
        corpus = {record.id: record for record in read_passages(path)} if path.is_file() else {}
        asked |= {normalize_answer(each.question) for one in questions for each in (one, *one.sub_questions)}
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
        return data.examples_of(prepared, 0, data.variation_of(len), ["rag"])

    monkeypatch.setattr(data, "open_reranker", lambda retrieve, name: retrieve)
    monkeypatch.setattr(plan, "SIZES", (2,))
    monkeypatch.setattr(plan, "ROUNDS", 1)
    shown, left_out = made([found[0], found[2]])
    assert len(shown) == 1
    assert not left_out
    assert made([found[0], found[1]]) == ([], {data.SHOWN: 1})


def test_the_evaluation_sets_are_no_sources():
    assert not {file for _, file in EVALUATION} & {source.file for source in SOURCES.values()}


TEXTS = {
    "tarn": ("Tarn", "Tarn is a village of weavers. It was built in 1640."),
    "brook": ("Brook", "Brook is a town of brewers. It was built in 1702."),
    "crag": ("Crag", "The Crag is a mountain in the north. It rises to 900 metres."),
    "marn": ("Lake Marn", "Lake Marn is deep and cold. It lies in the country of Veld."),
}
CORPUS = {id: PassageRecord(id=id, title=title, text=text) for id, (title, text) in TEXTS.items()}
ASKED = [
    Question(id="q0", question="When was Tarn built?", answers=["1640"], gold_ids=["tarn"]),
    Question(id="q1", question="When was Brook built?", answers=["1702"], gold_ids=["brook"]),
    Question(id="q2", question="How high is the Crag?", answers=["900 metres"], gold_ids=["crag"]),
    Question(id="q3", question="In which country is Lake Marn?", answers=["Veld"], gold_ids=["marn"]),
]


def _reading(reading: str) -> list[Example]:
    passages = [Passage(id=one.id, title=one.title, text=one.text) for one in CORPUS.values()]
    prepared = Prepared(SOURCES["squad-sample"], ASKED, CORPUS, ListRetriever(passages), {})
    return data.examples_of(prepared, 0, data.variation_of(len), ["rag"], reading)[0]


def test_both_replies_of_reading_have_the_same_questions_and_passages(monkeypatch):
    monkeypatch.setattr(data, "open_reranker", lambda retrieve, name: retrieve)
    monkeypatch.setattr(plan, "LONGEST", 100_000)
    monkeypatch.setattr(plan, "DEMO_SHARE", 0.0)
    answers, reasons = _reading("answer"), _reading("evidence")
    (row,) = EVIDENCE_FIRST.values()
    assert len(answers) == len(reasons) > 3
    for alone, after in zip(answers, reasons, strict=True):
        assert (after.program, after.predictor) == row
        assert alone.messages[-1].content.rpartition("Reply")[0] == after.messages[-1].content.rpartition("Reply")[0]
        assert list(json.loads(alone.completion)) == ["answer"]
        assert list(json.loads(after.completion)) == ["reasoning", "answer"]
        assert json.loads(alone.completion)["answer"] == json.loads(after.completion)["answer"]


def test_of_composed_questions_the_whole_ones_alone_are_read(monkeypatch):
    monkeypatch.setattr(data, "open_reranker", lambda retrieve, name: retrieve)
    steps = [SubQuestion(question=ASKED[n].question, answer=ASKED[n].answers[0], gold_ids=ASKED[n].gold_ids)
             for n in (0, 1)]  # fmt: skip
    whole = Question(id="w", question="Which is older, Tarn or Brook?", answers=["Tarn"], gold_ids=["tarn", "brook"],
                     sub_questions=steps, type="comparison")  # fmt: skip
    passages = [Passage(id=one.id, title=one.title, text=one.text) for one in CORPUS.values()]
    asked = {}
    for name in ("2wikimultihopqa", "2wikimultihopqa-composed"):
        prepared = Prepared(SOURCES[name], [whole], CORPUS, ListRetriever(passages), {})
        examples = data.examples_of(prepared, 0, data.variation_of(len), ["multihop"])[0]
        reading = [one.messages[-1].content for one in examples if one.predictor == "reading.predict"]
        asked[name] = {text.partition("[[ ## question ## ]]")[2].strip().splitlines()[0] for text in reading}
    assert asked["2wikimultihopqa"] == {whole.question, *(step.question for step in steps)}
    assert asked["2wikimultihopqa-composed"] == {whole.question}


def _example(number: int, **changed: str) -> Example:
    about = {"program": "rag", "predictor": "reading", "skill": "reading", "source": "qed", "licence": "MIT"}
    return Example(messages=(Message(role="user", content=str(number)),), completion="a", question_id=f"q{number}",
                   labels="gold", **{**about, **changed})  # fmt: skip


@pytest.mark.parametrize(
    "licence",
    ["not stated", "research and academic use only (MultiRC)", "MIT; not stated", "CC BY-NC 4.0", "",
     "MIT (research only)", "CC BY-SA 3.0 (Natural Questions, QED); WebGLM's list: not stated"],
)  # fmt: skip
def test_no_example_of_a_licence_that_is_refused_or_not_stated_is_written(tmp_path, licence):
    made = [data.Made("qed", [_example(0), _example(1, licence=licence)], {}, {}, 2)]
    with pytest.raises(UserError, match="licence"):
        data.write(tmp_path, made, 0, {}, len)
    assert not list(tmp_path.iterdir())


def test_the_licence_of_every_source_lets_weights_be_shipped():
    for source in SOURCES.values():
        check_licence(source.licence, source.name)


def test_what_is_written_is_balanced_and_said(tmp_path):
    verdicts = ["yes"] * 5 + ["no"] * 2 + ["first"] * 3 + ["second"] * 4 + [""] * 3
    made = [data.Made("qed", [_example(n, verdict=v) for n, v in enumerate(verdicts)], {"held_back": 1}, {}, 17)]
    assert data.write(tmp_path, made, 0, {"reading": "answer"}, len) == 2 + 2 + 3 + 3 + 3
    manifest = ujson.loads((tmp_path / "manifest.json").read_text())
    assert manifest["verdicts"] == {"yes": 2, "no": 2, "first": 3, "second": 3}
    assert manifest["verdicts_by_predictor"] == {"rag.reading": {"yes": 2, "no": 2, "first": 3, "second": 3}}
    assert manifest["examples_left_out_by_balance"] == 4
    assert manifest["questions_left_out"] == {"qed": {"held_back": 1}}
    assert manifest["by_licence"] == {"MIT": 13}
    assert len(read_examples(tmp_path / "examples.jsonl")) == manifest["examples"] == 13
