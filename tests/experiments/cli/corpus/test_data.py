"""`verihop data`: datasets listed, converted, pooled, sampled."""

import json

import pytest

import verihop as module


def test_data_sets_are_listed_converted_and_pooled(verihop, tmp_path):
    listed = verihop("data", "list")[1]
    assert "hotpotqa: https://hotpotqa.github.io (CC BY-SA 4.0)" in listed
    assert "subset halluqa-knowledge: " in listed
    assert "NQ-open.dev.jsonl" in json.loads(verihop("data", "list", "--json")[1])["nq_open"]["files"]
    record = {
        "_id": "1",
        "question": "Who keeps the gate?",
        "answer": "Ansa",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Gate", 0]],
        "context": [["Gate", ["Ansa keeps the gate."]], ["Wall", ["The wall is old."]]],
    }
    (tmp_path / "in.json").write_text(json.dumps([record]))
    code, out, _ = verihop("data", "convert", "hotpotqa", tmp_path / "in.json", "--out", tmp_path / "a", "--quiet")
    assert (code, "1 questions" in out) == (0, True)
    code, out, _ = verihop("data", "pool", tmp_path / "a" / "passages.jsonl", "--out", tmp_path / "p.jsonl", "--json")
    assert json.loads(out)["counts"]["written"] == 2
    code, _, err = verihop("data", "convert", "hotpotqa", tmp_path / "in.json", "--out", tmp_path / "a", "--quiet")
    assert (code, "set overwrite" in err) == (2, True)
    code, out, _ = verihop(
        "data", "convert", "own", tmp_path / "in.json", "--out", tmp_path / "own", "--quiet", "--json"
    )
    assert (code, json.loads(out)["passages"]) == (0, None)


def test_a_subset_is_written_with_the_hash_of_its_ids(verihop, tmp_path):
    rows = [{"id": f"h{n}", "question": "?", "type": kind} for n, kind in enumerate(("Knowledge", "Misleading"))]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["data", "subset", "halluqa-knowledge", tmp_path / "q.jsonl", "--out", tmp_path / "s.jsonl"]
    code, out, _ = verihop(*command, "--json")
    assert (code, json.loads(out)["count"]) == (0, 1)
    assert (tmp_path / "s.jsonl").read_text().count("\n") == 1
    code, _, err = verihop(*command)
    assert (code, "exists already" in err) == (2, True)


def test_questions_are_split_and_each_part_is_asked_by_its_name(verihop, tmp_path):
    rows = [{"id": str(n), "question": f"Where is {n}?", "answers": ["here"]} for n in range(20)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["data", "split", tmp_path / "q.jsonl", "--out", tmp_path / "s.jsonl", "--dev", 0.25, "--test", 3]
    code, out, _ = verihop(*command, "--json")
    assert (code, json.loads(out)["counts"]) == (0, {"train": 12, "dev": 5, "test": 3})
    code, _, err = verihop(*command)
    assert (code, "exists already" in err) == (2, True)
    code, out, err = verihop(*command, "--overwrite")
    assert (code, "12 train" in out) == (0, True)
    assert "--split dev" in err
    _, _, err = verihop(*command[:-3], 0, "--test", 3, "--overwrite")
    assert "--split test" in err
    shown = json.loads(verihop("data", "report", tmp_path / "s.jsonl", "--split", "test", "--json")[1])
    assert shown["questions"] == 3


def test_parts_of_a_split_have_its_name_in_front_and_questions_without_one_are_counted(verihop, tmp_path):
    rows = [{"id": str(n), "question": f"Where is {n}?", **({"split": "train"} if n < 4 else {})} for n in range(6)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["data", "split", tmp_path / "q.jsonl", "--split", "train", "--out", tmp_path / "s.jsonl", "--dev", 1]
    code, out, err = verihop(*command, "--test", 0)
    assert (code, out.splitlines()[0]) == (0, "2 (none), 1 train-dev, 3 train-train")
    assert "--split train-dev" in err


def test_a_set_without_an_address_is_not_fetched(verihop, tmp_path):
    code, _, err = verihop("data", "fetch", "musique", "--out", tmp_path)
    assert (code, "no URL to fetch from" in err) == (2, True)
    assert verihop("data", "fetch", "magic", "--out", tmp_path)[0] == 2


def test_an_index_stands_beside_its_corpus_unless_told_otherwise(verihop, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "1", "text": "a river"}\n')
    assert verihop("index", tmp_path / "p.jsonl", "--retriever", "bm25", "--quiet")[0] == 0
    assert (tmp_path / "index" / "index.json").exists()


def test_gold_named_by_title_becomes_ids(verihop, tmp_path):
    (tmp_path / "p.jsonl").write_text(
        '{"id": "1", "title": "Ossa", "text": "a river"}\n'
        '{"id": "2", "title": "Lake", "text": "deep"}\n{"id": "3", "title": "Lake", "text": "cold"}\n'
    )
    rows = [
        {"id": "q1", "question": "?", "gold_titles": ["ossa"]},
        {"id": "q2", "question": "?", "gold_titles": ["Lake", "Sea"]},
    ]
    rows.append({"id": "q3", "question": "?", "gold_titles": ["Lake"]})
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("data", "gold", tmp_path / "q.jsonl", "--corpus", tmp_path / "p.jsonl", "--out", tmp_path / "g.jsonl")
    code, out, err = verihop(*command)
    assert (code, "1 resolved, 1 missing, 1 ambiguous" in out) == (0, True)
    assert "No passage has the title, document or words 'Sea'." in err
    assert "'Lake' has 2 passages: quote words of the right one in gold_quotes" in err
    assert json.loads((tmp_path / "g.jsonl").read_text().splitlines()[0])["gold_ids"] == ["1"]
    assert verihop(*command)[0] == 2
    assert json.loads(verihop(*command, "--overwrite", "--json")[1])["missing"] == ["Sea"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "No gold passage was found (1 without gold), so nothing is written."),
        ({"gold_quotes": ["a"]}, "No gold passage was found (1 ambiguous, e.g. 'a'), so nothing is written."),
        ({"gold_quotes": ["river", "sea"]}, "No gold passage was found (1 missing, e.g. 'sea'), so nothing is"),
    ],
)
def test_gold_of_no_question_is_an_error(keys, message, verihop, tmp_path):
    (tmp_path / "p.jsonl").write_text(
        '{"id": "1", "title": "Ossa", "text": "a river"}\n{"id": "2", "title": "Marn", "text": "a lake"}\n'
    )
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "q", "question": "?", **keys}) + "\n")
    code, out, err = verihop(
        "data", "gold", tmp_path / "q.jsonl", "--corpus", tmp_path / "p.jsonl", "--out", tmp_path / "g.jsonl"
    )
    assert (code, out, (tmp_path / "g.jsonl").exists()) == (2, "", False)
    assert message in err
    assert "Next:" not in err


def test_a_report_reads_questions_and_official_files_and_finds_trained_questions(verihop, tmp_path):
    record = {
        "question_id": "1",
        "question_text": "Are Ossa and Marn in Veld?",
        "answers_objects": [{"spans": ["yes"]}],
        "contexts": [{"title": "Ossa", "paragraph_text": "Ossa lies in Veld.", "is_supporting": True}],
    }
    (tmp_path / "dev.jsonl").write_text(json.dumps(record) + "\n")
    code, out, _ = verihop("data", "report", tmp_path / "dev.jsonl", "--dataset", "hotpotqa", "--json")
    assert (code, json.loads(out)["kinds"], json.loads(out)["answer_types"]) == (0, {"comparison": 1}, {"yes": 1})
    (tmp_path / "q.jsonl").write_text('{"id": "a", "question": "Who keeps the gate?", "answers": ["Ansa"]}\n')
    (tmp_path / "t.jsonl").write_text('{"id": "b", "question": "who keeps THE gate"}\n')
    code, out, _ = verihop("data", "report", tmp_path / "q.jsonl", "--train", tmp_path / "t.jsonl")
    assert (code, "in the training file, too, to be left out of one of them: 1 (a)." in " ".join(out.split())) == (
        0,
        True,
    )
    assert verihop("data", "report", tmp_path / "none.jsonl")[0] == 2
    asked = [{"id": "a", "question": "Who keeps the gate?", "answers": ["Ansa"]}]
    assert module.report(asked, train=tmp_path / "t.jsonl").trained_on == {"same_question": ["a"]}


def test_a_report_compares_gold_with_the_corpus_of_the_training_file(tmp_path):
    for name, gold, asked in (("dev", "p", "Who keeps the gate?"), ("train", "q", "Who rang the bell?")):
        (tmp_path / name).mkdir()
        question = {"id": "a", "question": asked, "gold_ids": [gold]}
        passage = {"id": gold, "text": "Ansa keeps the gate and rang the bell."}
        (tmp_path / name / "questions.jsonl").write_text(json.dumps(question) + "\n")
        (tmp_path / name / "passages.jsonl").write_text(json.dumps(passage) + "\n")
    found = module.report(tmp_path / "dev" / "questions.jsonl", train=tmp_path / "train" / "questions.jsonl")
    assert found.trained_on == {"same_gold_passage": ["a"]}


def test_a_development_set_is_listed_and_has_its_own_splits(verihop, tmp_path):
    assert "development set musique-dev: " in verihop("data", "list")[1]
    code, _, err = verihop("data", "convert", "musique-dev", tmp_path, "--out", tmp_path / "o", "--limit", 3)
    assert (code, "omit --split, --limit" in err) == (2, True)
    code, _, err = verihop("data", "convert", "musique-dev", tmp_path, "--out", tmp_path / "o")
    assert (code, "musique_ans_train_100" in err) == (2, True)
