"""Every source refuses what an evaluation asks or needs, and what is absent is skipped."""

import random
from pathlib import Path

import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion, write_questions
from experiments.papers.embedded_lm import sources
from experiments.papers.embedded_lm import unseen as command
from experiments.papers.embedded_lm.sources import SOURCES, reworded
from optimizers.distill.leakage import RETRIEVED_GOLD, SAME_GOLD, SAME_QUESTION, Evaluation
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.conftest import ListRetriever, load_module

small = load_module(Path(__file__).parent / "small_files.py")
COMPOSED = [name for name in SOURCES if name.endswith("-composed")]
NAMES = [name for name in SOURCES if name not in ("world", *COMPOSED)]
HELD = "Evaluations hold this back, whatever it is about."


def prepared(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, evaluation: Evaluation, found=()):
    """Return a source of two questions, given an evaluation and what BM25 finds for any question."""
    source = SOURCES[name]
    data, more = folder / "data", folder / "more"
    more.mkdir(parents=True)
    (small.write_lives if name in COMPOSED else small.write_source)(name, source.path(data, more))
    retrieve = ListRetriever([Passage(id=f"p{n}", text=text) for n, text in enumerate(found)])
    monkeypatch.setattr(sources, "HELD_BACK", {})
    monkeypatch.setattr(sources, "evaluation_of", lambda data, work: evaluation)
    monkeypatch.setattr(sources, "_index", lambda pool, work, retriever: (retrieve, _passages(name, work)))
    monkeypatch.setattr(sources, "_bm25", lambda pool, work: retrieve)
    monkeypatch.setattr(sources, "present", lambda data, more: {name: source})
    (made,) = sources.prepare(data, folder / "work", [name], more)
    return made


def _passages(name: str, work: Path) -> list[PassageRecord]:
    return [one for path in sources.passage_files(SOURCES[name], work) for one in sources.read_passages(path)]


def asked(made) -> list[str]:
    return [question.question for question in made.questions]


@pytest.mark.parametrize("name", NAMES)
def test_without_an_evaluation_both_questions_are_trained_on(name, tmp_path, monkeypatch):
    made = prepared(name, tmp_path, monkeypatch, sources.NOTHING)
    assert asked(made) == [small.SAFE, small.PLANTED]
    assert all(question.gold_ids and set(question.gold_ids) <= made.corpus.keys() for question in made.questions)


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_question_is_refused(name, tmp_path, monkeypatch):
    evaluation = Evaluation.of([Question(id="e", question=small.PLANTED.upper())])
    made = prepared(name, tmp_path, monkeypatch, evaluation)
    assert asked(made) == [small.SAFE]
    assert made.dropped[SAME_QUESTION] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_gold_passage_is_refused(name, tmp_path, monkeypatch):
    corpus = {"g": PassageRecord(id="g", title="of another corpus", text=small.gold(small.PLANTED))}
    evaluation = Evaluation.of([Question(id="e", question="Who was it?", gold_ids=["g"])], corpus)
    made = prepared(name, tmp_path, monkeypatch, evaluation)
    assert asked(made) == [small.SAFE]
    assert made.dropped[SAME_GOLD] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_question_that_finds_gold_of_an_evaluation_is_refused(name, tmp_path, monkeypatch):
    corpus = {"g": PassageRecord(id="g", text=HELD)}
    evaluation = Evaluation.of([Question(id="e", question="Who was it?", gold_ids=["g"])], corpus)
    made = prepared(name, tmp_path, monkeypatch, evaluation, found=[HELD])
    assert asked(made) == []
    assert made.dropped[RETRIEVED_GOLD] == 2


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_questions_need_no_gold_of_an_evaluation(name, tmp_path, monkeypatch):
    corpus = {"g": PassageRecord(id="g", text=small.LIVES["Cy Tarn"])}
    evaluation = Evaluation.of([Question(id="e", question="Who was it?", gold_ids=["g"])], corpus)
    made = prepared(name, tmp_path, monkeypatch, evaluation)
    assert made.questions
    assert made.dropped[SAME_GOLD] > 0
    assert not any("Cy Tarn" in question for question in asked(made))


@pytest.mark.parametrize("name", COMPOSED)
def test_a_composed_question_that_an_evaluation_asks_is_refused(name, tmp_path, monkeypatch):
    (first, *_) = asked(prepared(name, tmp_path / "before", monkeypatch, sources.NOTHING))
    evaluation = Evaluation.of([Question(id="e", question=first)])
    made = prepared(name, tmp_path / "after", monkeypatch, evaluation)
    assert first not in asked(made)
    assert made.dropped[SAME_QUESTION] == 1


def test_every_source_has_a_small_file():
    assert set(small.SHAPES) == set(NAMES)


def test_what_is_absent_is_skipped(tmp_path):
    data, more = tmp_path / "data", tmp_path / "more"
    assert list(sources.present(data, more)) == ["world"]
    small.write_source("squad", more / SOURCES["squad"].file)
    small.write_source("qed", data / SOURCES["qed"].file)
    assert set(sources.present(data, more)) == {"world", "squad", "qed"}
    assert set(sources.present(data, None)) == {"world", "qed"}


def test_a_source_without_a_stated_licence_is_not_converted(tmp_path, monkeypatch):
    refused = sources.QuestionSource("refused", "squad", "f.jsonl", "squad", stated="research and academic use only")
    small.write_source("squad", tmp_path / "f.jsonl")
    with pytest.raises(UserError, match="licence"):
        sources.convert_source(refused, tmp_path, tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_long_passages_and_answers_are_left_out_by_reason():
    corpus = {
        "short": PassageRecord(id="short", text="It was Ann."),
        "long": PassageRecord(id="long", text="word " * (sources.LONGEST_PASSAGE + 1)),
    }
    long_answer = "one two three four five six seven eight nine"
    kept, why = sources._readable(
        [
            Question(id="a", question="Who?", answers=["Ann", long_answer], gold_ids=["short"]),
            Question(id="b", question="Who?", answers=["Ann"], gold_ids=["long"]),
            Question(id="c", question="Who?", answers=[long_answer], gold_ids=["short"]),
            Question(id="d", question="Who?", answers=[long_answer], gold_ids=["short"], inferences=["So it is."]),
        ],
        corpus,
    )
    assert [(one.id, one.answers) for one in kept] == [("a", ["Ann"]), ("d", [long_answer])]
    assert why == {"gold_passage_is_long": 1, "answer_is_long_or_absent": 1}


def test_sub_questions_of_an_evaluation_are_asked_by_it(tmp_path, monkeypatch):
    folder = tmp_path / "evaluation" / "0-toy"
    folder.mkdir(parents=True)
    whole = Question(id="e", question="Who owns the mill of Tarn?", sub_questions=[SubQuestion(question="Who is Bo?")])
    write_questions(folder / "questions.jsonl", [whole])
    monkeypatch.setattr(sources, "EVALUATION", (("toy", "toy.json"),))
    monkeypatch.setattr(sources, "HELD_BACK", {})
    found = sources.evaluation_of(tmp_path, tmp_path)
    assert found.asks("who is Bo")
    assert found.asks("Who owns the mill of Tarn?")


def worded(question: str, answer: str) -> dict[str, str]:
    asked = Question(id="q", question=question, answers=[answer])
    made = [reworded(asked, random.Random(seed)) for seed in range(80)]
    return {one.question: one.answers[0] for one in made}


def test_earlier_and_later_have_opposite_answers():
    made = worded("Who was born first, Ann Orn or Bo Velt?", "Bo Velt")
    assert len(made) == 8
    for question, answer in made.items():
        later = any(word in question for word in ("later", "last"))
        if answer in ("yes", "no"):
            assert answer == ("no" if "before" in question else "yes")
        else:
            assert answer == ("Ann Orn" if later else "Bo Velt")


def test_chains_are_asked_for_the_earlier_one_alone():
    made = worded("Which was founded first, the maker of Tarn or the maker of Brook?", "Orn Mills")
    assert set(made.values()) == {"Orn Mills"}
    assert len(made) == 4


@pytest.mark.parametrize(
    ("question", "wordings"),
    [
        (
            "Were Ann Orn and Bo Velt born in the same town?",
            {
                "Were Ann Orn and Bo Velt born in the same town?": "yes",
                "Was Ann Orn born in the same town as Bo Velt?": "yes",
                "Is it true that Ann Orn and Bo Velt were born in the same town?": "yes",
                "Were Ann Orn and Bo Velt born in different towns?": "no",
            },
        ),
        (
            "Do The Crag and The Tarn have the same director?",
            {
                "Do The Crag and The Tarn have the same director?": "yes",
                "Does The Crag have the same director as The Tarn?": "yes",
                "Do The Crag and The Tarn have different directors?": "no",
            },
        ),
    ],
)
def test_the_same_and_different(question, wordings):
    assert worded(question, "yes") == wordings


def test_other_questions_stay_as_they_are():
    assert worded("Where was Ann Orn born?", "Brook") == {"Where was Ann Orn born?": "Brook"}


def test_questions_of_a_file_that_no_source_keeps(tmp_path, monkeypatch, capsys):
    evaluation = Evaluation.of([Question(id="e", question=small.PLANTED)])
    made = prepared("qed", tmp_path, monkeypatch, evaluation)
    monkeypatch.setattr(command, "prepare", lambda data, work, more, retriever: [made])
    asked = [Question(id=str(n), question=text) for n, text in enumerate((small.SAFE.upper(), small.PLANTED, "Why?"))]
    write_questions(tmp_path / "asked.jsonl", asked)
    command.main(tmp_path / "asked.jsonl", tmp_path / "data", tmp_path / "out.jsonl")
    assert command.read_questions(tmp_path / "out.jsonl") == asked[1:]
    assert "2 of 3 questions" in capsys.readouterr().out
