"""`verihop eval` with metrics that an entailment oracle makes."""

import json

import pytest
from typer.testing import CliRunner

from experiments.analysis.report.html import write_report
from experiments.cli.main import app


def told(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    passages = [
        {"id": "a", "title": "Quillon", "text": "The harbour master of Quillon is Ansa Merrow."},
        {"id": "b", "title": "Dremmel", "text": "Dremmel lies on a lake. The lake is deep."},
    ]
    questions = [
        {
            "id": "1",
            "question": "Who is the harbour master of Quillon?",
            "answers": ["Ansa Merrow"],
            "gold_ids": ["a"],
            "key_facts": ["Ansa Merrow."],
        },
        {"id": "2", "question": "What is deep in Dremmel?", "answers": ["The lake"], "gold_ids": ["b"]},
    ]
    for name, rows in (("passages", passages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        told("index", folder / "passages.jsonl", "--out", folder / "index", "--retriever", "bm25", "--quiet").exit_code
        == 0
    )
    return folder


PASSING = "Contradictions pass as entailed: changed number 6 of 10, negation 10 of 10, swapped roles 10 of 10"


def test_metrics_of_an_oracle_are_scored_and_its_agreement_is_shown(world, tmp_path):
    out = tmp_path / "run"
    asked = [
        "eval",
        world / "questions.jsonl",
        "--program",
        "self_completion",
        "--index",
        world / "index",
        "--lm",
        "simulated",
    ]
    names = "em,keyfacts_recall,sc[strict],citation_precision,uncited"
    run = told(*asked, "--metrics", names, "--oracle", "lexical", "--out", out, "--quiet")
    assert run.exit_code == 0, run.output
    assert "keyfacts_recall, sc[strict] by lexical (agreement with people: AUC" in " ".join(run.output.split())
    definitions = json.loads((out / "run.json").read_text())["metrics"]
    assert list(definitions) == names.split(",")
    assert "Entailment by lexical (agreement with people: AUC" in definitions["sc[strict]"]
    for told_in in (definitions["keyfacts_recall"], definitions["sc[strict]"], " ".join(run.output.split())):
        assert PASSING in told_in
    scores = [json.loads(line)["scores"] for line in (out / "rows.jsonl").read_text().splitlines()]
    assert sorted(row["keyfacts_recall"] is None for row in scores) == [False, True]
    assert all(0 <= row["sc[strict]"] <= 1 for row in scores)


def test_tables_and_comparisons_show_agreement_and_the_f1_of_means(world, tmp_path):
    # The simulated LM knows nothing of this corpus: its only sentence, "unknown", tells one of two facts.
    question = {"id": "1", "question": "Who is the harbour master of Quillon?", "answers": ["Ansa Merrow"]}
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({**question, "key_facts": ["Unknown", "Ansa Merrow lives in Quillon."]}))
    for name in ("one", "two"):
        asked = ["eval", questions, "--program", "rag", "--index", world / "index"]
        names = "keyfacts_precision,keyfacts_recall"
        run = told(*asked, "--lm", "simulated", "--metrics", names, "--out", tmp_path / name)
        assert run.exit_code == 0, run.output
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    means = [summary["metrics"][f"keyfacts_{part}"]["mean"] for part in ("precision", "recall")]
    assert means == [1.0, 0.5]
    f1 = 2 / 3
    assert summary["derived"] == {"keyfacts_f1[of means]": pytest.approx(f1)}
    assert "keyfacts_f1[of means]" in run.output
    assert "keyfacts_precision, keyfacts_recall by lexical (agreement with people: AUC" in summary["oracles"][0]
    assert PASSING in summary["oracles"][0]
    told_of = json.loads(told("compare", tmp_path / "one", tmp_path / "two", "--by", "hops", "--json").stdout)
    compared = told_of["notices"]
    assert summary["oracles"][0] in compared
    assert summary["oracles"][0] in told_of["by"]["notices"]
    assert f"keyfacts_f1[of means], two: {100 * f1:.1f}." in compared
    page = write_report([tmp_path / "one"], tmp_path / "report.html").read_text()
    assert f"Of the whole run: keyfacts_f1[of means] {100 * f1:.1f}" in page
    assert summary["oracles"][0] in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "keyfacts_recall", "--oracle", "nli"], "Unknown entailment oracle 'nli'"),
        (["--metrics", "em", "--oracle", "lexical"], "An oracle decides only keyfacts_recall"),
        (["--metrics", "keyfact"], "Unknown metric 'keyfact'"),
    ],
)
def test_mistakes_about_oracles_are_told(world, tmp_path, arguments, message):
    run = told(
        "eval",
        world / "questions.jsonl",
        "--program",
        "standard",
        "--lm",
        "simulated",
        "--out",
        tmp_path / "r",
        *arguments,
    )
    assert message in str(run.exception)
    assert not (tmp_path / "r").exists()
