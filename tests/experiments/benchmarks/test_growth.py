"""Growing corpora: distractors that no question needs, vectors that are kept, measurements that go on after a kill."""

import itertools
import json
import sys

import pytest

from corpora.index.build import build_index
from corpora.index.update import vectors_of
from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import Question, write_questions
from corpora.retrievers.dense import passage_text
from experiments.benchmarks.retriever import asked, growth
from experiments.benchmarks.retriever.growth import MADE, distractors
from optimizers.distill.leakage import Evaluation
from tests.corpora.conftest import hashed_words

GOLD = PassageRecord(id="gold", title="Ada Stone", text="Ada Stone founded the mill of Brook in 1903. It stands.")
OWN = [
    GOLD,
    PassageRecord(id="own", title="Bo Reed", text="Bo Reed was born in 1888. Reed sang in the choir of Brook."),
    PassageRecord(id="own2", title="Cy Marsh (singer)", text="Cy Marsh sold a mill in 1921. Marsh left for Delta."),
]
ASKED = [Question(id="q1", question="Who founded the mill of Brook?", answers=["Ada Stone"], gold_ids=["gold"])]
REAL = [
    PassageRecord(id="copy", title="A mill", text=GOLD.text),
    PassageRecord(id="edition", title="Ada Stone (miller)", text="She founded a mill."),
    PassageRecord(id="own", title="Bo Reed", text=OWN[1].text),
    PassageRecord(id="same", title="Reed", text=OWN[1].text),
    PassageRecord(id="kept", title="Dee Ford", text="Dee Ford painted mills in 1950. Ford lived in Ember."),
]
NEEDED = Evaluation.of(ASKED, {"gold": GOLD})


def made(count):
    return list(itertools.islice(distractors(OWN, REAL, NEEDED), count))


def test_nothing_that_a_question_needs_is_a_distractor_and_fewer_are_the_first_of_more():
    found = made(80)
    assert found[0].id == "kept"
    assert all(each.id.startswith(MADE) for each in found[1:])
    assert made(7) == found[:7]
    assert len({each.id for each in found}) == 80
    titles = {each.title for each in found}
    assert titles.isdisjoint({"Ada Stone", "Bo Reed", "Cy Marsh"})
    assert not any("Ada" in passage_text({"title": each.title, "text": each.text}) for each in found)


def test_recombined_passages_rename_and_redate_what_they_are_made_of():
    real = " ".join(each.text for each in (*OWN, *REAL))
    for each in made(60)[1:]:
        assert "Bo Reed" not in each.text
        assert not any(year in each.text for year in ("1888", "1921", "1950"))
        assert each.text not in real
    assert any("choir of Brook" in each.text for each in made(60)[1:])


def test_from_a_number_on_recombined_passages_have_one_sentence_and_the_earlier_ones_stay(monkeypatch):
    before = made(40)
    monkeypatch.setattr(growth, "_SHORT_FROM", 30)
    after = made(60)
    longer = [each for each in after[1:] if int(each.id.removeprefix(MADE)) < 30]
    assert after[1 : 1 + len(longer)] == longer == before[1 : 1 + len(longer)]
    shorter = after[1 + len(longer) :]
    assert shorter
    assert max(each.text.count(".") for each in shorter) == 1


def test_vectors_at_hand_are_taken_over_and_the_others_counted(tmp_path):
    write_passages(tmp_path / "few.jsonl", OWN[:2])
    write_passages(tmp_path / "all.jsonl", OWN)
    texts = [passage_text({"title": each.title, "text": each.text}) for each in OWN]
    first = growth.Reusing([], tmp_path / "log", name="fake", encode=hashed_words)
    build_index(tmp_path / "few.jsonl", tmp_path / "index", embedder=first)
    second = growth.Reusing([tmp_path / "index"], tmp_path / "log2", name="fake", encode=hashed_words)
    build_index(tmp_path / "all.jsonl", tmp_path / "more", embedder=second)
    assert (vectors_of(tmp_path / "more", 3) == first(texts)).all()
    (line,) = [json.loads(line) for line in (tmp_path / "log2").read_text().splitlines()]
    assert (line["taken"], line["embedded"]) == (2, 1)
    with pytest.raises(growth.UserError, match="no vectors by other"):
        growth.Reusing([tmp_path / "index"], tmp_path / "log", name="other", encode=hashed_words)
    with pytest.raises(growth.UserError, match="no vectors by fake in bf16"):
        growth.Reusing([tmp_path / "index"], tmp_path / "log", name="fake", encode=hashed_words, precision="bf16")


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Return a folder of work for one set of three questions."""
    questions = [ASKED[0].model_copy(update={"id": f"q{n}"}) for n in range(3)]

    def prepare(name, data, more, folder):
        write_passages(folder / name / "passages.jsonl", OWN)
        return folder / name / "passages.jsonl", questions

    monkeypatch.setattr(growth, "prepare", prepare)
    monkeypatch.setattr(growth, "DEVELOPMENT", {"tiny": None})
    monkeypatch.setattr(growth, "real_passages", lambda data, more, folder: tmp_path / "real.jsonl")
    write_passages(tmp_path / "real.jsonl", REAL)
    return tmp_path / "work"


def run(work, monkeypatch, sizes):
    arguments = ["--data", "data", "--more", "more", "--work", str(work), "--out", str(work / "out.json")]
    monkeypatch.setattr(sys, "argv", ["growth", *arguments, "--sizes", sizes, "--retrievers", "bm25"])
    growth.main()
    return json.loads((work / "out.json").read_text())["sizes"]


def test_the_command_measures_each_size_once_and_writes_table_and_plot(work, monkeypatch, capsys):
    monkeypatch.setattr(growth.Growth, "measure", lambda self, size, name, folder: asked.ask(
        folder, name, self.questions_path, self._cell(size, name)))  # fmt: skip
    first = run(work, monkeypatch, "0")
    assert [entry["passages"] for entry in first.values()] == [3]
    sizes = run(work, monkeypatch, "0,40")
    assert sizes["0"] == first["0"]
    assert sizes["40"]["passages"] == 43
    found = sizes["40"]["retrievers"]["bm25"]
    assert found["sets"]["tiny"]["passage_recall@5"] == {
        "mean": 1.0, "low": 1.0, "high": 1.0, "change": {"difference": 0.0, "low": 0.0, "high": 0.0},
    }  # fmt: skip
    assert set(found["share_of_found"]["tiny"]) == {"own set", "other real", "recombined"}
    assert len(list(read_passages(work / "40" / "passages.jsonl"))) == 43
    assert (work / "out.png").read_bytes()[:4] == b"\x89PNG"
    assert "| 40 | bm25 | 100.0 (+0.0 [0.0, 0.0]) |" in capsys.readouterr().out


def test_a_killed_measurement_goes_on_with_the_questions_that_are_left(tmp_path):
    write_passages(tmp_path / "own.jsonl", OWN)
    build_index(tmp_path / "own.jsonl", tmp_path / "index", retriever="bm25")
    questions = [Question(id=f"q{n}", question="Who sang in the choir?") for n in range(4)]
    write_questions(tmp_path / "questions.jsonl", questions)
    arguments = tmp_path / "index", "bm25", tmp_path / "questions.jsonl", tmp_path / "cell.jsonl"
    asked.ask(*arguments)
    lines = arguments[-1].read_bytes().splitlines(keepends=True)
    arguments[-1].write_bytes(b"".join(lines[:3]) + lines[3][:20])
    asked.ask(*arguments)
    asked.ask(*arguments)
    ids = [json.loads(line).get("id", "opened") for line in arguments[-1].read_text().splitlines()]
    assert ids == ["opened", "q0", "q1", "opened", "q2", "q3"]
