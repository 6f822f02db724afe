"""Gold named by title, document or quotation becomes passage ids, where one passage is meant."""

import pytest

from corpora.gold import resolve_gold
from corpora.passages import PassageRecord
from corpora.questions import Question
from signatures.common.errors import UserError


def _passage(id: str, title: str, text: str, source: str) -> PassageRecord:
    return PassageRecord.model_validate({"id": id, "title": title, "text": text, "source": source})


CORPUS = [
    _passage("l1", "Lamps", "Lamps burn oil.", "manuals/lamps.pdf"),
    _passage("l2", "Lamps > Wick", "The wick is cotton.", "manuals/lamps.pdf"),
    _passage("l3", "Lamps > Wick", "A wick lasts a year.", "manuals/lamps.pdf"),
    _passage("o1", "Oil", "Oil is pressed from seeds.", "oil.md"),
]


def _resolved(**keys):
    result = resolve_gold([Question.model_validate({"id": "q", "question": "?", **keys})], CORPUS)
    (question,) = result.questions
    return question.gold_ids, (question.model_extra or {}).get("gold_titles"), dict(result.counts), result


def test_a_title_or_document_with_one_passage_is_found():
    assert _resolved(gold_titles=["oil "])[:3] == (["o1"], ["Oil"], {"resolved": 1})
    assert _resolved(gold_documents=["oil.md"], gold_titles=["Lamps"])[:2] == (["l1", "o1"], ["Lamps", "Oil"])


def test_a_quote_settles_which_of_several_passages_is_meant():
    assert _resolved(gold_titles=["Lamps > Wick"], gold_quotes=["lasts  a year"])[:2] == (["l3"], ["Lamps"])
    assert _resolved(gold_documents=["lamps.pdf"], gold_quotes=["burn oil"])[0] == ["l1"]
    assert _resolved(gold_documents=["manuals/lamps.pdf"], gold_quotes=["burn oil"])[0] == ["l1"]


def test_quotations_alone_name_a_passage_each():
    assert _resolved(gold_quotes=["PRESSED  from seeds."])[:3] == (["o1"], ["Oil"], {"resolved": 1})
    assert _resolved(gold_quotes=["wick lasts a ye", "il is pr", "oil.", " "])[0] == ["l3", "o1", "l1"]


def test_a_quotation_of_no_passage_or_of_several_is_said_and_gives_no_ids():
    ids, titles, counts, result = _resolved(gold_quotes=["lasts a year", "wick"])
    assert (ids, counts, result.ambiguous, titles) == ([], {"ambiguous": 1}, {"wick": 2}, ["Lamps"])
    ids, _, counts, result = _resolved(gold_quotes=["lasts a year", "lasts a week"])
    assert (ids, counts, result.missing, result.found) == ([], {"missing": 1}, ["lasts a week"], False)
    with pytest.raises(UserError, match="none of the titles, documents and quotations .* e.g. 'Lamps > Wick'"):
        _resolved(gold_quotes=["Lamps > Wick"])  # a title is no quotation
    assert _resolved(gold_quotes=[" "])[2] == {"without_gold": 1}


def test_without_one_the_question_has_articles_but_no_ids():
    ids, titles, counts, result = _resolved(gold_documents=["lamps.pdf"], gold_titles=["Oil"], gold_quotes=["wick"])
    assert (ids, titles, counts) == ([], ["Oil", "Lamps"], {"ambiguous": 1})
    assert result.ambiguous == {"lamps.pdf": 3}


def test_what_the_corpus_lacks_is_named_and_changes_nothing():
    ids, titles, counts, result = _resolved(gold_titles=["Oil", "Whales"])
    assert (ids, titles, counts, result.missing) == ([], ["Oil", "Whales"], {"missing": 1}, ["Whales"])
    assert _resolved(gold_documents=["amps.pdf", "Oil"], gold_titles=["Oil"])[3].missing == ["amps.pdf", "Oil"]
    with pytest.raises(UserError, match="none of the titles, documents and quotations .* e.g. 'Whales'"):
        _resolved(gold_titles=["Whales"])


def test_ids_and_questions_without_gold_are_kept():
    assert _resolved(gold_ids=["x"], gold_titles=["Oil"])[:3] == (["x"], ["Oil"], {"had_ids": 1})
    assert _resolved()[2] == {"without_gold": 1}
    with pytest.raises(UserError, match="'gold_titles' must be a list of texts"):
        _resolved(gold_titles="Oil")


def test_a_name_of_several_documents_names_none():
    corpus = [_passage("1", "A", "x", "a/readme.md"), _passage("2", "B", "y", "b/readme.md")]
    asked = Question.model_validate({"id": "q", "question": "?", "gold_documents": ["readme.md"]})
    (question,) = resolve_gold([asked], corpus).questions
    assert "gold_titles" not in (question.model_extra or {})
