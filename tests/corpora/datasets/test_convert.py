"""Converting and pooling: errors that say what to do, files complete or absent, and the hub without a network."""

import json
from pathlib import Path
from typing import Any

import pytest

from corpora.datasets import readers
from corpora.datasets.catalog import DATASETS
from corpora.datasets.convert import convert, pool
from corpora.datasets.heldback import held_back
from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import read_questions
from signatures.common.errors import UserError


def hub_record(number: int) -> dict[str, Any]:
    return {
        "id": f"h{number}",
        "question": f"Question {number}?",
        "answer": "yes",
        "type": "comparison",
        "level": "easy",
        "supporting_facts": {"title": ["A"], "sent_id": [0]},
        "context": {"title": ["A", f"B{number}"], "sentences": [["One.", " Two."], [f"Text {number}."]]},
    }


def lines(path: Path, *entries: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_every_dataset_states_licence_source_and_shapes():
    for dataset in DATASETS.values():
        assert dataset.licence
        assert dataset.source
        assert dataset.schemas


def test_a_limit_draws_questions_by_a_hash_and_writes_their_passages_only(tmp_path: Path):
    records = list(map(hub_record, range(5)))
    source = lines(tmp_path / "s.jsonl", *records)
    done: list[int] = []
    result = convert("hotpotqa", source, tmp_path / "out", limit=2, progress=done.append)
    assert (result.counts["questions"], result.counts["passages"], result.counts["paragraphs"]) == (2, 3, 4)
    assert done == [1, 2]
    turned = lines(tmp_path / "t.jsonl", *records[::-1])
    other = convert("hotpotqa", turned, tmp_path / "turned", limit=2)
    ids = [{each.id for each in read_questions(made.questions_path)} for made in (result, other)]
    assert ids[0] == ids[1] == held_back([record["id"] for record in records], 2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"foo": 1, "bar": 2}', r"line 1 has the keys foo, bar.*Known: official \(_id, question, context\); hub"),
        ("{}", r"keys \(none\)"),
        (json.dumps(hub_record(1)) + '\n{"id": "x"}', "line 2: not in the shape 'hub'"),
        (json.dumps({**hub_record(1), "context": 5}), "line 1: does not have the shape 'hub'"),
        (json.dumps({**hub_record(1), "context": {"title": ["A"], "sentences": []}}), "line 1: does not have"),
        (json.dumps({**hub_record(1), "supporting_facts": [{"title": "A"}]}), "KeyError 'sent_id'"),
        (json.dumps({**hub_record(1), "question": " "}), "line 1: 'question': is empty"),
        (json.dumps({**hub_record(1), "evidences": []}), "no shape of hotpotqa"),
        (f"{json.dumps(hub_record(1))}\n" * 2, "line 2: the question id 'h1' is used twice"),
        ("{broken", "line 1: not JSON"),
        ("", "contains no record"),
        ("[]", "contains no record"),
        ("[1]", "record 1: an object was expected, not '1'"),
        (f"[{json.dumps(hub_record(1))}", r"record 2: not JSON \(it does not close before the end of the file\)"),
        (f"[{json.dumps(hub_record(1))[:-9]}", "record 1: not JSON"),
        (f"[{json.dumps(hub_record(1))}] x", r"record 2: not JSON \(.*trailing garbage\)"),
    ],
)
def test_a_bad_source_is_refused_and_leaves_the_old_files(tmp_path: Path, text, why):
    out = tmp_path / "out"
    convert("hotpotqa", lines(tmp_path / "good.jsonl", hub_record(0)), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UserError, match=why):
        convert("hotpotqa", tmp_path / "bad.json", out, overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_failed_conversion_leaves_no_folder(tmp_path: Path):
    source = lines(tmp_path / "s.jsonl", hub_record(0), {"id": "x"})
    with pytest.raises(UserError, match="line 2"):
        convert("hotpotqa", source, tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()


def test_an_earlier_conversion_or_pool_is_replaced_only_when_asked(tmp_path: Path):
    source = lines(tmp_path / "s.jsonl", hub_record(0), hub_record(1))
    done = convert("hotpotqa", source, tmp_path / "out", limit=1)
    assert done.passages_path is not None
    before = done.passages_path.read_bytes()
    with pytest.raises(UserError, match="questions.jsonl exists already.*set overwrite"):
        convert("hotpotqa", source, tmp_path / "out")
    assert done.passages_path.read_bytes() == before
    assert convert("hotpotqa", source, tmp_path / "out", overwrite=True).counts["questions"] == 2
    pool([done.passages_path], tmp_path / "pool.jsonl")
    with pytest.raises(UserError, match="pool.jsonl exists already"):
        pool([done.passages_path], tmp_path / "pool.jsonl")


def test_passages_are_packed_on_demand(tmp_path: Path):
    source = lines(tmp_path / "s.jsonl", hub_record(0))
    plain = convert("hotpotqa", source, tmp_path / "plain").passages_path
    packed = convert("hotpotqa", source, tmp_path / "packed", packed="zst").passages_path
    assert plain is not None
    assert packed == tmp_path / "packed" / "passages.jsonl.zst"
    assert list(read_passages(packed)) == list(read_passages(plain))
    with pytest.raises(UserError, match="Unknown compression 'rar'"):
        convert("hotpotqa", source, tmp_path / "x", packed="rar")


def test_wrong_arguments_are_refused_by_name(tmp_path: Path):
    source = lines(tmp_path / "s.jsonl", hub_record(0))
    with pytest.raises(UserError, match="Unknown dataset 'trivia'. Choose from: 2wiki"):
        convert("trivia", source, tmp_path)
    with pytest.raises(UserError, match="at least 1, got 0"):
        convert("hotpotqa", source, tmp_path, limit=0)
    with pytest.raises(UserError, match="hotpotqa does not: omit aliases"):
        convert("hotpotqa", source, tmp_path, aliases=source)
    with pytest.raises(UserError, match="no 'Q_id'"):
        convert("2wikimultihopqa", source, tmp_path, aliases=source)
    with pytest.raises(UserError, match="No file"):
        convert("hotpotqa", tmp_path / "none.json", tmp_path)
    with pytest.raises(UserError, match="is a folder"):
        convert("hotpotqa", tmp_path, tmp_path / "out")


def test_records_of_an_array_are_read_across_the_borders_of_chunks(monkeypatch: pytest.MonkeyPatch):
    entries = [{"n": n, "text": "äöü\U0001f30d" * n} for n in range(40)]
    content = ("\ufeff " + json.dumps(entries, ensure_ascii=False, indent=2) + "\n").encode()
    for size in (1, 3, 64, 1000):
        chunks = [content[start : start + size] for start in range(0, len(content), size)]
        monkeypatch.setattr(readers, "read_chunks", lambda _, chunks=chunks: iter(chunks))
        found, split = readers.read_source("any.json")
        assert [record for _, record in found] == entries
        assert split is None


def test_a_folder_is_loaded_through_datasets_with_its_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    lines(tmp_path / "set" / "train.jsonl", hub_record(1), hub_record(2))
    lines(tmp_path / "set" / "validation.jsonl", hub_record(3))
    source = f"hub:{tmp_path / 'set'}"
    result = convert("hotpotqa", f"{source}@validation", tmp_path / "out")
    local = convert("hotpotqa", tmp_path / "set" / "validation.jsonl", tmp_path / "local", split="dev")
    assert result.questions_path is not None
    assert local.questions_path is not None
    assert read_questions(result.questions_path) == read_questions(local.questions_path)
    assert result.passages_path.read_bytes() == local.passages_path.read_bytes()
    with pytest.raises(UserError, match="needs a split.*train, validation"):
        convert("hotpotqa", source, tmp_path / "out")
    with pytest.raises(UserError, match="cannot be loaded"):
        convert("hotpotqa", f"hub:{tmp_path / 'cache'}", tmp_path / "out")
    with pytest.raises(UserError, match="is not a hub name"):
        convert("hotpotqa", "hub:", tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hotpot_qa", ("hotpot_qa", None)),
        ("hotpot_qa/distractor", ("hotpot_qa", "distractor")),
        ("owner/name", ("owner/name", None)),
        ("owner/name/config", ("owner/name", "config")),
    ],
)
def test_hub_names_are_split_into_name_and_configuration(text, expected):
    assert readers._name_and_config(text) == expected


def test_pooling_keeps_each_passage_once_and_prefers_the_one_with_sentences(tmp_path: Path):
    bare = PassageRecord(id="a", title="A", text="One. Two.")
    cut = PassageRecord(id="a", title="A", text="One.  Two.", sentences=["One.", "  Two."])
    other = PassageRecord(id="a", title="A", text="One. Two.", sentences=["One. Two."])
    more = PassageRecord(id="b", text="Three.")
    for name, entries in {"x": [bare, more], "y": [cut], "z": [other]}.items():
        write_passages(tmp_path / name, entries)
    counts = pool([tmp_path / name for name in "xyz"], tmp_path / "pool.jsonl.gz")
    assert list(read_passages(tmp_path / "pool.jsonl.gz")) == [more, cut]
    assert counts == {"read": 4, "written": 2, "duplicates": 2, "sentences_differ": 1}


def test_pooling_refuses_one_id_with_two_texts_and_no_files(tmp_path: Path):
    write_passages(tmp_path / "x", [PassageRecord(id="a", text="One.")])
    write_passages(tmp_path / "y", [PassageRecord(id="a", text="Two.")])
    with pytest.raises(UserError, match="the id 'a' has another text"):
        pool([tmp_path / "x", tmp_path / "y"], tmp_path / "out")
    with pytest.raises(UserError, match="Nothing to pool"):
        pool([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_hipporag_pools_are_read_and_contain_the_gold_of_their_questions(tmp_path: Path):
    """Their files: `NAME_corpus.json` (title, text, sometimes idx) and `NAME.json`, arrays of official records."""
    sentences = {"Ossa": ["Ossa is a river.", " It ends in Lake Marn."], "Lake Marn": ["Lake Marn lies in Veld."]}
    corpus = [{"title": title, "text": "".join(parts), "idx": n} for n, (title, parts) in enumerate(sentences.items())]
    paragraphs = [
        {"idx": n, "title": title, "paragraph_text": "".join(parts), "is_supporting": True}
        for n, (title, parts) in enumerate(sentences.items())
    ]
    base = {"question": "In which country does the Ossa end?", "answer": "Veld", "type": "bridge"}
    context = {"context": list(sentences.items()), "supporting_facts": [["Ossa", 1], ["Lake Marn", 0]]}
    asked: dict[str, dict[str, Any]] = {
        "hotpotqa": {**base, **context, "_id": "h", "level": "hard"},
        "2wikimultihopqa": {**base, **context, "_id": "w", "evidences": [["Lake Marn", "country", "Veld"]]},
        "musique": {"id": "2hop__1_2", **base, "answer_aliases": [], "paragraphs": paragraphs, "answerable": True},
    }
    for name, record in asked.items():
        for file, content in ((f"{name}_corpus.json", [*corpus, {"title": "Other", "text": "."}]), (name, [record])):
            (tmp_path / file).with_suffix(".json").write_text(json.dumps(content))
        passages = convert("plain", tmp_path / f"{name}_corpus.json", tmp_path / f"{name}_pool").passages_path
        questions = convert(name, tmp_path / f"{name}.json", tmp_path / name).questions_path
        assert passages is not None
        assert questions is not None
        ids = [passage.id for passage in read_passages(passages)]
        (question,) = read_questions(questions)
        assert sorted(question.gold_ids) == sorted(ids[:2])
        assert len(ids) == 3
