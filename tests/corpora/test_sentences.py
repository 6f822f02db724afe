"""Sentences of documents are those of pysbd, found many times faster; what is not plain is given to it."""

import random
from pathlib import Path

import pytest
import ujson
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import sentences
from corpora.cut import cut_paragraphs, split_paragraphs
from corpora.sentences import document_sentences
from signatures.text import split_sentences

ROOT = Path(__file__).parents[2]
WORDS = (
    *["lamp", "Ossa", "The", "I", "he", "3.14", "1871", "12", "oil-lit", "it's", "www.lamp.example", "é", "a"],
    *["Mr.", "Dr.", "U.S.", "e.g.", "p.m.", "J.", "Inc.", "etc.", "No.", "Ph.D.", "St.", "vs.", "Jan.", "pp.", "al."],
    *["ends.", "why?", "so!", "1871.", "12.", "[1]", "[2, 3].", "ends.[4]", '"So!"', '"Oil', 'out."', "(a)", "(lit."],
    *["why.)", "“Go.”", "Stop...", "Yahoo!", "U.S.,", "Inc.,", "--", "wait?!", "[citation needed]", "«Oil.»", "dogs'"],
)


def plain(found: list[str]) -> list[str]:
    return [" ".join(sentence.split()) for sentence in found]


def same(text: str) -> bool:
    return plain(document_sentences(text)) == plain(split_sentences(text))


def cuts(text: str, monkeypatch: pytest.MonkeyPatch, splitter) -> list[tuple[list[str], str]]:
    with monkeypatch.context() as patch:
        patch.setattr("corpora.cut.document_sentences", splitter)
        return list(cut_paragraphs(split_paragraphs(text), 100))


def test_abbreviations_quotations_brackets_and_marks_are_those_of_pysbd():
    chosen = random.Random(7)
    texts = [" ".join(chosen.choices(WORDS, k=chosen.randint(2, 9))) for _ in range(600)]
    differing = [text for text in texts if not same(text)]
    assert len(differing) <= 1, differing  # of brackets or quotation marks that are not closed


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=" .!?\"'’“”()[]1aIA\n-", max_size=80))
def test_nothing_is_lost_whatever_the_text(text):
    kept = "".join("".join(document_sentences(text)).split())
    assert sorted(kept) == sorted("".join(text.split()))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Mr. Ossa lit it. He left.", 2),
        ("Lamps of the U.S. The oil of Inc. Brass.", 3),
        ("It burns. 'Go. Now.' He left.", 3),
        ("First line\nsecond line. Third.", 3),
        ("The items: a) oil b) wick c) glass.", 4),
        ("灯塔高三十米。它由石头建成。", 2),
        ("He wrote (in 1871. A bad year.) to her.", 1),
        ("Known [1]. Lit.[2] [3] Seen? [4] Yes.", 4),
        ("Wait... What?! Yes", 3),
        ("“Is it lit?” He left. “It is.”", 3),
    ],
)
def test_sentences_of_many_forms(text, number):
    assert same(text)
    assert len(document_sentences(text)) == number


def test_plain_prose_does_not_need_pysbd(monkeypatch):
    asked = []
    monkeypatch.setattr(sentences, "split_sentences", lambda text, _: asked.append(text) or [text.strip()])
    text = 'The lamp of Dr. J. Ossa (born 1871) burns oil, e.g. "Pen." It cost $3.50! Why? Lit [1]. The U.S. He left.'
    assert len(document_sentences(text)) == 6
    assert asked == []
    assert document_sentences("It burns. Stop.. It is lit. The end.") == ["It burns.", "Stop.. It is lit.", "The end."]
    assert asked == [" Stop.. It is lit."]  # no more than the sentence around what is unclear


def test_passages_of_the_demo_and_the_manuals_of_this_repository_are_cut_where_they_were(monkeypatch):
    lines = (ROOT / "corpora/demo/passages.jsonl").read_text(encoding="utf-8").splitlines()
    demo = [ujson.loads(line)["text"] for line in lines]
    text = "\n\n".join(demo[::4])
    assert cuts(text, monkeypatch, document_sentences) == cuts(text, monkeypatch, split_sentences)
    manual = (ROOT / "corpora/ingest/README.md").read_text(encoding="utf-8")[:4000]
    joined = "\n\n".join(" ".join(part.split()) for part in split_paragraphs(manual))  # prose of long lines
    assert cuts(joined, monkeypatch, document_sentences) == cuts(joined, monkeypatch, split_sentences)


def test_paragraphs_of_wikipedia_are_split_as_by_pysbd(shared_data):
    lines = (shared_data / "strategyqa" / "paragraphs_998.jsonl").read_text(encoding="utf-8").split("\n")
    texts = [ujson.loads(line)["contents"] for line in lines[:990:5]]
    differing = [text for text in texts if not same(text)]
    assert len(differing) <= 0.01 * len(texts), differing
