"""Each published shape of each benchmark, on small invented records."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from corpora.datasets.convert import Converted, convert
from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, read_questions

OSSA = ["Ossa is a river.", " It ends in Lake Marn."]
MARN = ["Lake Marn lies in Veld."]
FACTS = [["Ossa", 1], ["Lake Marn", 0]]
HOTPOT: dict[str, Any] = {
    "_id": "h1",
    "question": "Where does the Ossa end?",
    "answer": "Veld",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": FACTS,
    "context": [["Ossa", OSSA], ["Other", ["Nothing."]], ["Lake Marn", MARN]],
}
HUB = {
    **{key: HOTPOT[key] for key in ("question", "answer", "type", "level")},
    "id": "h1",
    "supporting_facts": {"title": ["Ossa", "Lake Marn"], "sent_id": [1, 0]},
    "context": {"title": ["Ossa", "Other", "Lake Marn"], "sentences": [OSSA, ["Nothing."], MARN]},
}
IRCOT = {
    "question_id": "h1",
    "question_text": "Where does the Ossa end?",
    "answers_objects": [{"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": ["Veld"]}],
    "contexts": [
        {"idx": 0, "title": "Ossa", "paragraph_text": "".join(OSSA), "is_supporting": True},
        {"idx": 1, "title": "Other", "paragraph_text": "Nothing.", "is_supporting": False},
        {"idx": 2, "title": "Lake Marn", "paragraph_text": MARN[0], "is_supporting": True},
    ],
}
TRIPLES = [["Lake Marn", "country", "Veld"], ["Ossa", "mouth", "Lake Marn"]]
WIKI: dict[str, Any] = {
    **{key: HOTPOT[key] for key in ("_id", "question", "answer", "supporting_facts", "context")},
    "type": "compositional",
    "answer_id": "Q7",
    "evidences": TRIPLES,
    "qa_pairs": [
        {"question": "Where does the Ossa end?", "answer": "The Ossa ends in Lake Marn."},
        {"question": "In which country is Lake Marn?", "answer": "Lake Marn is in Veld."},
    ],
}
MUSIQUE: dict[str, Any] = {
    "id": "2hop__1_2",
    "question": "In which country does the Ossa end?",
    "answer": "Veld",
    "answer_aliases": ["Veldt", "Veld"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Ossa", "paragraph_text": "".join(OSSA), "is_supporting": True},
        {"idx": 1, "title": "Ossa", "paragraph_text": "Ossa is a name.", "is_supporting": False},
        {"idx": 2, "title": "Lake Marn", "paragraph_text": MARN[0], "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 1, "question": "Ossa >> mouth", "answer": "Lake Marn", "paragraph_support_idx": 0},
        {"id": 2, "question": "In which country is #1 ? (the #9 hit)", "answer": "Veld", "paragraph_support_idx": 2},
    ],
}


def converted(tmp_path: Path, name: str, *records: Any, **options: Any) -> Converted:
    tmp_path.mkdir(exist_ok=True)
    source = tmp_path / "source.json"
    source.write_text(json.dumps(list(records)), "utf-8")
    return convert(name, source, tmp_path / "out", **options)


def read(result: Converted) -> tuple[list[Question], dict[str, PassageRecord]]:
    assert result.questions_path is not None
    return read_questions(result.questions_path), {p.id: p for p in read_passages(result.passages_path)}


@pytest.mark.parametrize("record", [HOTPOT, HUB], ids=["official", "hub"])
def test_hotpotqa_keeps_answers_gold_and_context(tmp_path: Path, record):
    (question,), passages = read(converted(tmp_path, "hotpotqa", record, split="dev"))
    ossa, other, marn = question.context_ids
    assert [passages[i].title for i in question.context_ids] == ["Ossa", "Other", "Lake Marn"]
    assert passages[ossa].text == "Ossa is a river. It ends in Lake Marn."
    assert passages[ossa].sentences == OSSA
    assert question.gold_ids == [ossa, marn]
    assert question.gold_sentences == [(ossa, 1), (marn, 0)]
    assert (question.id, question.answers, question.type, question.split) == ("h1", ["Veld"], "bridge", "dev")
    assert question.model_extra == {"level": "hard"}
    assert other in passages


def test_all_shapes_of_hotpotqa_give_the_same_ids(tmp_path: Path):
    ids = []
    for name, record in zip("abc", [HOTPOT, HUB, IRCOT], strict=True):
        (question,), _ = read(converted(tmp_path / name, "hotpotqa", record))
        ids.append((question.context_ids, question.gold_ids))
    assert ids[0] == ids[1] == ids[2]


def test_ircot_has_gold_by_paragraph_only(tmp_path: Path):
    (question,), passages = read(converted(tmp_path, "hotpotqa", IRCOT))
    assert [passages[i].title for i in question.gold_ids] == ["Ossa", "Lake Marn"]
    assert question.gold_sentences == []
    assert all(passage.sentences is None for passage in passages.values())


@pytest.mark.parametrize(
    ("objects", "answers"),
    [
        ([{"number": "12", "date": {}, "spans": []}], ["12"]),
        ([{"number": "", "date": {"day": "3", "month": "May", "year": "1950"}, "spans": []}], ["3 May 1950"]),
        ([{"spans": ["a"]}, {"spans": ["b", "a"]}], ["a", "b"]),
        ([], []),
    ],
)
def test_ircot_answers_are_spans_numbers_or_dates(tmp_path: Path, objects, answers):
    (question,), _ = read(converted(tmp_path, "hotpotqa", {**IRCOT, "answers_objects": objects}))
    assert question.answers == answers


def test_invalid_gold_is_counted_never_dropped_silently(tmp_path: Path):
    facts = [["Ossa", 9], ["Nowhere", 0], ["Nowhere", 1], ["Lake Marn", 0], ["Lake Marn", 0]]
    result = converted(tmp_path, "hotpotqa", {**HOTPOT, "supporting_facts": facts})
    (question,), passages = read(result)
    assert [passages[i].title for i in question.gold_ids] == ["Ossa", "Lake Marn"]
    assert [(passages[i].title, n) for i, n in question.gold_sentences] == [("Lake Marn", 0)]
    assert result.counts["gold_sentences_out_of_range"] == 1
    assert result.counts["gold_titles_missing"] == 1


def test_a_title_of_two_different_paragraphs_is_counted(tmp_path: Path):
    context = [*HOTPOT["context"], ["Ossa", ["Another text."]]]
    result = converted(tmp_path, "hotpotqa", {**HOTPOT, "context": context})
    (question,), _ = read(result)
    assert question.gold_ids[0] == question.context_ids[0]
    assert result.counts["gold_titles_ambiguous"] == 1


def test_a_test_set_without_gold_is_converted_and_counted(tmp_path: Path):
    result = converted(tmp_path, "hotpotqa", {key: HOTPOT[key] for key in ("_id", "question", "context")})
    assert result.counts["questions_without_answer"] == 1
    assert read(result)[0][0].gold_ids == []


def test_wikimultihop_pairs_sub_questions_with_short_answers_and_passages(tmp_path: Path):
    (question,), passages = read(converted(tmp_path, "2wikimultihopqa", WIKI))
    first, second = question.sub_questions
    assert (first.question, first.answer) == ("Where does the Ossa end?", "Lake Marn")
    assert [passages[i].title for i in first.gold_ids] == ["Ossa"]
    assert (second.question, second.answer) == ("In which country is Lake Marn?", "Veld")
    assert [passages[i].title for i in second.gold_ids] == ["Lake Marn"]
    assert (question.model_extra or {})["evidences"] == TRIPLES


def test_wikimultihop_without_qa_pairs_asks_by_relation(tmp_path: Path):
    record = {key: value for key, value in WIKI.items() if key != "qa_pairs"}
    (question,), _ = read(converted(tmp_path, "2wikimultihopqa", record))
    asked = [(hop.question, hop.answer) for hop in question.sub_questions]
    assert asked == [("Lake Marn >> country", "Veld"), ("Ossa >> mouth", "Lake Marn")]


@pytest.mark.parametrize("as_text", [False, True], ids=["dicts", "json text"])
def test_wikimultihop_in_the_shapes_of_the_hub(tmp_path: Path, as_text):
    hub: dict[str, Any] = {
        "context": [{"title": title, "content": sentences} for title, sentences in WIKI["context"]],
        "supporting_facts": [{"title": title, "sent_id": number} for title, number in FACTS],
        "evidences": [dict(zip(("fact", "relation", "entity"), triple, strict=True)) for triple in TRIPLES],
    }
    if as_text:
        hub = {key: json.dumps(value) for key, value in hub.items()}
    record = {**{key: value for key, value in WIKI.items() if key != "_id"}, **hub, "id": "h1"}
    assert read(converted(tmp_path / "a", "2wikimultihopqa", record)) == read(
        converted(tmp_path / "b", "2wikimultihopqa", WIKI)
    )


def test_wikimultihop_accepts_the_official_aliases(tmp_path: Path):
    aliases = tmp_path / "id_aliases.json"
    aliases.write_text('{"Q_id": "Q7", "aliases": ["Veldt", "Veld"], "demonyms": ["Veldish"]}\n')
    (question,), _ = read(converted(tmp_path, "2wikimultihopqa", WIKI, aliases=aliases))
    assert question.answers == ["Veld", "Veldt", "Veldish"]


def test_musique_resolves_references_and_distinguishes_equal_titles(tmp_path: Path):
    (question,), passages = read(converted(tmp_path, "musique", MUSIQUE))
    first, second = question.sub_questions
    assert (second.question, second.answer) == ("In which country is Lake Marn? (the #9 hit)", "Veld")
    assert second.model_extra == {"template": "In which country is #1 ? (the #9 hit)"}
    assert first.gold_ids + second.gold_ids == question.gold_ids == [question.context_ids[0], question.context_ids[2]]
    assert len(passages) == 3
    assert (question.answers, question.type) == (["Veld", "Veldt"], "2hop")


def test_musique_full_has_each_question_twice(tmp_path: Path):
    hops = [{**hop, "paragraph_support_idx": None} for hop in MUSIQUE["question_decomposition"]]
    missing = {**MUSIQUE, "answerable": False, "question_decomposition": hops}
    result = converted(tmp_path, "musique", MUSIQUE, missing)
    questions, _ = read(result)
    assert [question.id for question in questions] == ["2hop__1_2", "2hop__1_2-unanswerable"]
    assert questions[1].model_extra == {"answerable": False}
    assert result.counts["sub_questions_without_gold"] == 2


def test_a_plain_corpus_has_passages_only_and_keeps_its_keys(tmp_path: Path):
    entry = {"id": 4, "title": "Lake Marn", "text": MARN[0], "year": 1900}
    result = converted(tmp_path, "plain", entry, entry)
    (passage,) = read_passages(result.passages_path)
    assert result.questions_path is None
    assert passage.model_extra == {"source_id": 4, "year": 1900}
    assert (result.counts["passages"], result.counts["paragraphs"]) == (1, 2)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gz", "zst"])
@pytest.mark.parametrize("lines", [False, True], ids=["array", "lines"])
def test_arrays_and_lines_packed_or_not_give_the_same(tmp_path: Path, pack, lines):
    records = [HOTPOT, {**HOTPOT, "_id": "h2"}]
    text = "\n".join(map(json.dumps, records)) if lines else json.dumps(records, indent=1)
    suffix = {bytes: "", gzip.compress: ".gz", zstandard.compress: ".zst"}[pack]
    source = tmp_path / f"source.json{suffix}"
    source.write_bytes(pack(text.encode()))
    result = convert("hotpotqa", source, tmp_path / "out")
    assert [question.id for question in read(result)[0]] == ["h1", "h2"]
