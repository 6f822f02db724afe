"""A small annotated corpus, and the material to make examples from it."""

import random

import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from optimizers.distill.gold.annotation import Annotation, annotate
from optimizers.distill.gold.calls import Material
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from signatures.types import Passage

TEXTS = {
    "ossa": ("Ossa (river)", "The Ossa is a river in the north. It flows into Lake Marn after forty miles."),
    "marn": ("Lake Marn", "Lake Marn is deep and cold. It lies in the country of Veld."),
    "tarn": ("Tarn", "Tarn is a village of weavers. It was built in 1640."),
    "brook": ("Brook", "Brook is a town. Its market opens at noon."),
    "crag": ("Crag", "The Crag is a mountain. It rises to 900 metres."),
    "veldhof": ("Veldhof", "Veldhof is the capital of Veld. Its bridges are old."),
}
CORPUS = {
    name: PassageRecord(id=name, title=title, text=text, sentences=[f"{part}." for part in text[:-1].split(". ")])
    for name, (title, text) in TEXTS.items()
}
TWO_HOPS = Question(
    id="q1",
    question="In which country does the Ossa end?",
    answers=["Veld", "the country of Veld"],
    gold_ids=["marn", "ossa"],
    gold_sentences=[("ossa", 1), ("marn", 1)],
    sub_questions=[
        SubQuestion(question="Into which lake does the Ossa flow?", answer="Lake Marn", gold_ids=["ossa"]),
        SubQuestion(question="In which country does Lake Marn lie?", answer="Veld", gold_ids=["marn"]),
    ],
)
ONE_HOP = Question(id="q2", question="when was Tarn built", answers=["1640"], gold_ids=["tarn"])
NO_STEPS = TWO_HOPS.model_copy(update={"id": "q3", "sub_questions": []})
YES_NO = Question(
    id="q4",
    question="Is Tarn older than the market of Brook?",
    answers=["yes"],
    gold_ids=["tarn", "brook"],
    sub_questions=[
        SubQuestion(question="When was Tarn built?", answer="1640", gold_ids=["tarn"]),
        SubQuestion(question="When does the market of Brook open?", answer="at noon", gold_ids=["brook"]),
    ],
)
COMPARED = Question(
    id="q5",
    question="Which was built earlier, Tarn or Brook?",
    answers=["Tarn"],
    gold_ids=["brook", "tarn"],
    sub_questions=[
        SubQuestion(question="When was Brook built?", answer="3 May 1702", gold_ids=["brook"]),
        SubQuestion(question="When was Tarn built?", answer="1640", gold_ids=["tarn"]),
    ],
)
WRONG = WrongAnswers(
    [("When was it built?", "1702"), ("Into which lake?", "Lake Orn"), ("In which country?", "Hovia"), ("Who?", "Ann")]
)
QUESTIONS = (TWO_HOPS, ONE_HOP, NO_STEPS, YES_NO, COMPARED)


class ByOverlap:
    """Ranks passages by the words that they share with the query; all passages are returned."""

    fingerprint = "overlap"

    def __call__(self, query: str, k: int) -> list[Passage]:
        words = set(query.lower().split())
        ranked = sorted(CORPUS.values(), key=lambda record: -len(words & set(record.text.lower().split())))
        return [Passage(id=record.id, title=record.title, text=record.text, score=1.0) for record in ranked[:k]]

    def many(self, queries: list[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]


def material(seed: int = 0) -> Material:
    return Material(Contexts(ByOverlap()), random.Random(seed), WRONG)


def annotated(question: Question) -> Annotation:
    gold = annotate(question, CORPUS)
    assert gold is not None
    return gold


@pytest.fixture
def two_hops() -> Annotation:
    return annotated(TWO_HOPS)
