"""Gold sentences: which they are, where they are among the sentences seen at use, and who never trains on them."""

import gzip
import json

import numpy as np
import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from corpora.retrievers.sentence_features import FIRST, SECOND
from corpora.retrievers.sentences import Network
from experiments.papers.sentences import sets
from experiments.papers.sentences.__main__ import fit, offered, second_rows
from experiments.papers.sentences.sets import LabelledSet, gold_sentences, parts_of
from optimizers.distill.leakage import Evaluation
from tests.conftest import ListRetriever

TEXT = "Amber Rain is a film. It was directed by Ada Stone. It won a prize."
SENTENCES = ["Amber Rain is a film.", "It was directed by Ada Stone.", "It won a prize."]


class SharedWords:
    fingerprint = "shared words"

    def __call__(self, left, right):
        words = [[set(text.lower().split()) for text in texts] for texts in (left, right)]
        return np.array([[len(a & b) / len(a | b) for b in words[1]] for a in words[0]], dtype=np.float32)


def passage(name, text=TEXT, title="Amber Rain", sentences=None):
    return PassageRecord(id=name, title=title, text=text, sentences=sentences)


def labelled(count=10, evaluation=None):
    corpus = {"p": passage("p", sentences=SENTENCES), "q": passage("q", "Basalt is a rock. It is dark.", "Basalt")}
    questions = [
        Question(id=f"q{n}", question=f"Who directed the film Amber Rain of {n}?", gold_sentences=[("p", 1)])
        for n in range(count)
    ]
    retrieve = ListRetriever(list(corpus.values()))
    return LabelledSet("toy", questions, corpus, retrieve, {}, evaluation or Evaluation(frozenset(), frozenset()))


def test_gold_sentences_are_those_of_the_benchmark_or_hold_the_answer_of_a_step():
    corpus = {"p": passage("p", sentences=SENTENCES), "plain": passage("plain")}
    stated = Question(id="1", question="Who?", gold_sentences=[("p", 1), ("p", 9)])
    assert gold_sentences(stated, corpus) == [("p", SENTENCES[1])]
    steps = [SubQuestion(question="Who?", answer="ada stone", gold_ids=["plain"])]
    by_step = Question(id="2", question="Who?", sub_questions=steps)
    assert gold_sentences(by_step, corpus) == [("plain", SENTENCES[1])]
    assert gold_sentences(Question(id="3", question="Who?"), corpus) == []


@pytest.mark.parametrize(
    ("gold", "found"),
    [
        (SENTENCES[1], [1]),
        (" It was directed  by Ada Stone.", [1]),
        ("Amber Rain is a film. It was directed by Ada Stone.", [0, 1]),
        ("directed by Ada Stone. It", [1]),
        ("It was shot in Rome.", []),
        (" ", []),
    ],
)
def test_a_gold_sentence_is_where_half_of_the_shorter_one_is(gold, found):
    assert parts_of(gold, SENTENCES, TEXT) == found


def test_offered_sentences_are_labelled_and_gold_of_an_evaluation_is_no_distractor():
    (item,) = offered(labelled(1), SharedWords())
    assert item.labels == [0, 1, 0, 0, 0]
    assert item.rows.shape == (5, len(FIRST))
    assert item.between.shape == (5, 5)
    held = Evaluation(frozenset(), frozenset({"q"}))
    (item,) = offered(labelled(1, held), SharedWords())
    assert item.labels == [0, 1, 0, None, None]


def test_the_fit_finds_the_labelled_sentence_and_repeats_itself():
    items = offered(labelled(6), SharedWords())
    rounds = fit(items, units=2, steps=60, seed=0)
    assert fit(items, units=2, steps=60, seed=0) == rounds
    assert np.array(rounds[1]["hidden"]).shape == (len(SECOND), 2)
    first, second = Network(rounds[0], FIRST, "a test"), Network(rounds[1], SECOND, "a test")
    for item in items:
        assert int(np.argmax(second.of_features(second_rows(item, first)))) == item.labels.index(1)


def test_train_questions_with_labels_of_paragraphs_or_gold_of_dev_are_left_out(tmp_path, monkeypatch):
    def row(name, **more):
        context = [["Amber Rain", [f"Amber Rain {name} is a film.", " It was directed by Ada Stone."]]]
        facts = [["Amber Rain", 1]]
        fields = {"_id": name, "question": f"Who directed {name}?", "answer": "Ada Stone", "type": "bridge"}
        return {**fields, "context": context, "supporting_facts": facts, "supporting_level": "sentence", **more}

    rows = [
        row("kept"),
        row("asked"),
        row("paragraph", supporting_level="paragraph"),
        row("shared", gold_shared_with_dev=True),
    ]
    file = tmp_path / "train.jsonl.gz"
    with gzip.open(file, "wt") as lines:
        lines.writelines(json.dumps(each) + "\n" for each in rows)
    evaluation = Evaluation(frozenset({"who directed asked"}), frozenset())
    of = sets._hotpotqa(file, tmp_path / "work", evaluation)
    assert [question.id for question in of.questions] == ["kept"]
    assert dict(of.dropped) == {"labels_of_paragraphs": 1, "gold_shared_with_dev": 1, "same_question": 1}
    assert len(of.corpus) == 2  # distractors come from the questions that are fit to train on
