"""Languages other than English: stemmers of BM25, ends of sentences, and what a corpus is written in."""

import json
import warnings

import pytest

from corpora.cut import cut_paragraphs
from corpora.index.build import build_index
from corpora.index.open import fingerprints, open_index
from corpora.index.renew import renew_index
from corpora.languages import FUNCTION_WORDS, SENTENCES, STEMMERS, check_sentences, check_stemmer, language_of
from corpora.retrievers.bm25 import is_function_word, query_stems, stems
from corpora.retrievers.settings import RetrievalSettings
from corpora.retrievers.store import Stored
from corpora.sentences import document_sentences
from signatures.common.errors import UserError, UserNotice
from signatures.text import split_sentences

GERMAN = [
    "Die Häuser der Stadt stehen an einem Fluss, und sie sind nicht alt.",
    "Der See ist der größte des Landes und liegt in den Bergen.",
    "Das Kloster wurde von einem Grafen gebaut und ist heute eine Schule.",
]


@pytest.fixture
def german(tmp_path):
    path = tmp_path / "p.jsonl"
    lines = [{"id": f"p{number}", "title": "", "text": text} for number, text in enumerate(GERMAN)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def build(corpus, retriever="bm25", language="de", **options):
    folder = corpus.parent / f"{retriever}-{language}"
    build_index(corpus, folder, retriever=retriever, settings=RetrievalSettings(language=language), **options)
    return folder


@pytest.mark.parametrize("retriever", ["bm25", "bm25s"])
def test_an_index_stems_passages_and_queries_by_its_language(german, retriever):
    folder = build(german, retriever)
    assert json.loads((folder / "index.json").read_text())["settings"]["language"] == "de"
    (found,) = open_index(folder)("Welches Haus ist es?", 3)  # "ist" and "es" are no words of a German query
    assert found.id == "p0"
    with pytest.warns(UserNotice, match="in German: set the language to de"):
        english = build(german, retriever, "en")
    assert not any(found.id == "p0" for found in open_index(english)("Haus", 3))
    assert fingerprints(folder).isdisjoint(fingerprints(english))


def test_english_is_not_written_and_changes_no_fingerprint(german):
    assert "language" not in RetrievalSettings(language="en").model_dump()
    with pytest.warns(UserNotice):
        folder = build(german, "bm25", "en")
    assert "language" not in json.loads((folder / "index.json").read_text())["settings"]
    assert RetrievalSettings.model_validate({"k1": 1.2}).language == "en"


def test_the_language_of_an_index_stays(german):
    folder = build(german)
    with pytest.raises(UserError, match="language is fixed when an index is built"):
        open_index(folder, language="fr")
    passages = [Stored(b"p9", b"", b"Das Dorf ist klein.", b"{}")]
    with pytest.raises(UserError, match="in the language 'de', not 'fr'"):
        renew_index(folder, lambda: passages, language="fr")
    renew_index(folder, lambda: passages)
    assert open_index(folder)("Dörfer", 1)[0].id == "p9"


def test_a_language_without_a_stemmer_is_one_line_with_the_cure():
    with pytest.raises(UserError, match=r"no stemmer for the language 'xx': choose from ar, da, de"):
        check_stemmer("xx")
    with pytest.raises(UserError, match="'zh': omit it, since BM25 indexes characters"):
        check_stemmer("zh")
    with pytest.raises(UserError, match="'xx' is not known"):
        check_sentences("xx")
    assert check_sentences("zh") == "zh"


@pytest.mark.parametrize("code", STEMMERS)
def test_every_language_has_stems_and_those_of_a_query_are_among_them(code):
    text = "Die 12 casas и 中文 lakes"
    assert {"中", "文", "中文", "12"} <= set(stems(text, code))
    assert set(query_stems(text, code)) <= set(stems(text, code))
    assert query_stems("the") == ["the"]
    assert is_function_word("the", code) == (code == "en")


def test_the_lists_of_languages_are_those_of_the_libraries():
    from pysbd.languages import LANGUAGE_CODES
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    assert set(SENTENCES) == LANGUAGE_CODES.keys()
    for code, name in STEMMERS.items():
        builder = TextAnalyzerBuilder(Tokenizer.simple())
        try:
            builder.filter(Filter.stopword(name)).build()
            known = True
        except ValueError:
            known = False
        assert known == (code in FUNCTION_WORDS), code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (GERMAN[0], "de"),
        ("Le fleuve est le plus long de la région et se jette dans le lac.", "fr"),
        ("The river is the longest of the region.", "en"),
        ("青澜江是云岭省最长的河流，汉语叫 Qinglan。", "zh"),
        ("ひばり丸は長崎で建造された貨物船である。", "ja"),
        ("한빛호는 부산에서 건조된 연구선이다.", "ko"),
        ("Она родилась в Москве.", "ru"),
        ("Ossa 1908; Marn 1871", None),
        ("", None),
    ],
)
def test_the_language_of_a_text(text, code):
    assert language_of(text) == code


def test_a_corpus_in_english_or_of_names_says_nothing(tmp_path):
    path = tmp_path / "p.jsonl"
    texts = ["The lake is in the hills of the north.", "It was built for the people of a town.", "Ossa 1908"]
    lines = [{"id": str(number), "title": "", "text": text} for number, text in enumerate(texts)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_index(path, tmp_path / "i", retriever="bm25")


def test_sentences_end_by_the_rules_of_the_language():
    text = "Dr. Rau ging z. B. nach Ulm. Er kam am 3. Mai 1908 an."
    wanted = ["Dr. Rau ging z. B. nach Ulm.", "Er kam am 3. Mai 1908 an."]
    assert split_sentences(text, "de") == document_sentences(text, "de") == wanted
    assert split_sentences(text) != wanted
    assert split_sentences(text, "sv") == split_sentences(text)  # of which pysbd knows nothing


def test_a_chinese_heading_does_not_begin_the_sentence_below_it():
    assert [text for _, text in cut_paragraphs(["创作", "《纸船》发表于1979年。它很短。"])] == [
        "创作 《纸船》发表于1979年。它很短。"
    ]
