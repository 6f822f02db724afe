"""The source of a passage, from the corpus to what `ask`, rows, traces and reports show."""

import json

import pytest

from corpora.index.build import build_index

KEYS = {"source": "harbours.pdf", "page": 12, "url": "https://example.org/quillon", "tags": ["a"]}
QUESTION = "Who is the harbour master of Quillon?"


@pytest.fixture
def quillon(tmp_path, scripted_lm):
    """Return the folder with an index of two passages, one of which has other keys, and an LM that cites both."""
    lines = [
        {"id": "quillon", "title": "Quillon", "text": "The harbour master of Quillon is Ansa Merrow.", **KEYS},
        {"id": "plain", "title": "Ansa", "text": "Ansa Merrow of Quillon was born in Marn.\nName: Ansa; Age: 3"},
    ]
    (tmp_path / "passages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "questions.jsonl").write_text(
        json.dumps({"id": "q", "question": QUESTION, "answers": ["Ansa Merrow"], "gold_ids": ["quillon"]}) + "\n"
    )
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", retriever="bm25")
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa Merrow")
    return tmp_path


def test_ask_prints_a_short_source_and_all_keys_as_json(quillon, verihop):
    asked = ("ask", QUESTION, "--program", "rag", "--preset", "paper", "--index", quillon / "index")
    code, out, _ = verihop(*asked)
    assert code == 0
    lines = out.splitlines()
    place = lines.index("  [quillon] Quillon")
    assert lines[place + 1] == "      harbours.pdf, page 12, https://example.org/quillon"
    place = lines.index("  [plain] Ansa")
    assert lines[place + 1].strip() == "Ansa Merrow of Quillon was born in Marn."
    assert lines[place + 2] == "      Name: Ansa; Age: 3"  # a row of a table
    for option in ("--json", "--json-lines"):
        _, out, _ = verihop(*asked, option)
        found = {passage.pop("id"): passage for passage in json.loads(out.splitlines()[-1])["passages"]}
        assert {name: found["quillon"][name] for name in KEYS} == KEYS
        assert found["plain"].keys() == {"title", "text", "score"}


def test_rows_and_traces_have_them(quillon, verihop):
    run = quillon / "run"
    options = ("--program", "rag", "--preset", "paper", "--index", quillon / "index", "--out", run, "--quiet")
    code, _, err = verihop("eval", quillon / "questions.jsonl", *options)
    assert code == 0, err
    cited = json.loads((run / "rows.jsonl").read_text())["cited_passages"]
    texts = {line["id"]: line for line in map(json.loads, (quillon / "passages.jsonl").read_text().splitlines())}
    assert {passage["id"]: passage for passage in cited} == texts
    _, out, _ = verihop("compare", run, "--question", "q")
    assert "harbours.pdf, page 12" in " ".join(out.split())
    code, _, err = verihop(
        "score", run, "--metrics", "passage_recall@2,faithfulness[any]", "--index", quillon / "index"
    )
    assert code == 0, err


def test_own_metrics_find_them_in_rows_and_in_the_index(quillon, verihop):
    from experiments.pipeline.scoring.passage_texts import Corpus
    from experiments.runs.rebuild import prediction_of

    row = {"passage_ids": ["quillon"], "cited_passages": [{"id": "quillon", "title": "Q", "text": "x", "page": 3}]}
    row["cited_passages"][0]["score"] = "of another system"
    assert [passage.metadata for passage in prediction_of(row, {}).passages] == [{"page": 3}]
    corpus = Corpus(index=quillon / "index").find(["quillon"])
    assert [passage.metadata for passage in prediction_of(row, corpus).passages] == [KEYS]
