"""`verihop score` and `verihop metrics`, as a user runs them."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from experiments.runs.files import read_rows


@pytest.fixture
def run(verihop, world, made_once, tmp_path) -> Path:
    """Return a small run of GenGround on the simulated LM."""

    def make(folder: Path) -> None:
        lm = ("--lm", "simulated", "--limit", "12", "--metrics", "em", "-q", "--out", folder / "gg")
        asked = ("eval", world / "questions.jsonl", "--program", "genground", "--index", world / "index")
        code, _, err = verihop(*asked, *lm)
        assert code == 0, err

    return shutil.copytree(made_once("genground of 12 questions", make), tmp_path / "runs") / "gg"


def test_metrics_are_added_to_a_run_and_a_second_time_kept(verihop, run, world):
    names = "passage_recall@7,ndcg@10,sp_f1,joint_f1,faithfulness[any],claim_recall"
    words = ("score", run, "--metrics", names, "--oracle", "lexical", "--index", world / "index", "-q")
    code, out, err = verihop(*words)
    assert code == 0, err
    assert "ndcg@10: 12 of 12 answers scored" in out
    assert "faithfulness[any], claim_recall by lexical (agreement with people: AUC" in " ".join(out.split())
    assert all(set(row["scores"]) == {"em", *names.split(",")} for row in read_rows(run))
    assert set(json.loads((run / "summary.json").read_text())["metrics"]) == {"em", *names.split(",")}
    again = verihop(*words, "--json")
    assert again[0] == 0
    assert json.loads(again[1])["kept"] == names.split(",")


def test_what_cannot_be_computed_is_said_per_metric_with_the_cure(verihop, run):
    code, out, err = verihop("score", run, "--metrics", "hit@1,answer_in_context@5,str_em", "-q")
    assert code == 0
    assert "str_em: 0 of 12 answers scored; 12 lack short answers of sub-questions" in out
    assert "answer_in_context@5 needs texts of the passages read, which" in err
    assert "name the index or the passages of the corpus" in err


def test_metrics_of_quotes_are_refused_for_a_program_that_quotes_nothing(verihop, world, tmp_path):
    words = ("eval", world / "questions.jsonl", "--index", world / "index", "--lm", "simulated", "--limit", "2", "-q")
    for name, code in (("rag", 2), ("genground", 0)):
        out = tmp_path / name
        got, _, err = verihop(*words, "--program", name, "--metrics", "em,sp_f1,joint_f1", "--out", out)
        assert got == code, err
        assert ("sp_f1, joint_f1 needs predicted supporting facts or quoted evidence, and rag quotes" in err) == bool(
            code
        )
        assert out.exists() != bool(code)


def test_the_scoring_that_the_documentation_shows_adds_every_metric(verihop, run, world):
    for readme in ("README.md", "experiments/cli/README.md"):
        text = (Path(__file__).parents[4] / readme).read_text()
        (line,) = [line for line in text.splitlines() if "verihop score" in line and "passage_recall@7" in line]
        words = line.split("#")[0].split()[2:]
        words[words.index("runs/genground")] = run
        words = [world / "index" if word == "index" else word for word in words]
        code, _, err = verihop(*words, "-q")
        assert (code, "Not added" in err) == (0, False), err
        assert set(words[words.index("--metrics") + 1].split(",")) <= set(read_rows(run)[0]["scores"])


def test_another_index_than_that_of_the_run_is_said(verihop, run, tmp_path):
    (tmp_path / "other.jsonl").write_text(json.dumps({"id": "a", "title": "A", "text": "Other."}) + "\n")
    index = ("index", tmp_path / "other.jsonl", "--out", tmp_path / "index", "--retriever", "bm25", "-q")
    assert verihop(*index)[0] == 0
    code, _, err = verihop("score", run, "--metrics", "hit@1,answer_in_context@5", "--index", tmp_path / "index", "-q")
    assert code == 0
    assert "The run retrieved from another index than the one named" in err
    assert "the corpus named has not all of these passages" in err


def test_an_own_metric_of_the_current_directory_is_taken_by_eval_and_score(verihop, run, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text("def brief(example, prediction):\n    return len(prediction.answer) < 30\n")
    code, _, err = verihop("score", run, "--metrics", f"{name}:brief", "-q")
    assert code == 0, err
    assert all(row["scores"][f"{name}:brief"] in (0.0, 1.0) for row in read_rows(run))
    out = ("--out", tmp_path / "cot", "--limit", "3", "--lm", "simulated", "-q")
    code, _, err = verihop("eval", world / "questions.jsonl", "--program", "cot", *out, "--metrics", f"{name}:brief")
    assert code == 0, err
    sys.modules.pop(name)


def test_a_judge_scores_a_finished_run_and_its_cost_is_kept_apart(verihop, run, scripted_lm):
    engine = scripted_lm(lambda system, user: {"implied": True, "matches": True, "verdict": "yes", "answer": "yes"})
    calls = [row["calls"] for row in read_rows(run)]
    code, _, err = verihop("score", run, "--metrics", "acc[judge]", "--judge-lm", "judge", "-q")
    assert code == 0, err
    assert engine.prompts
    assert [row["calls"] for row in read_rows(run)] == calls
    description = json.loads((run / "run.json").read_text())
    assert description["judge"]["id"] == "scripted"
    assert description["scored"][0]["judge"] == "scripted"
    assert all(row["judging"]["calls"] for row in read_rows(run) if row["answer"])


def test_predictions_become_a_run(verihop, run, world, tmp_path):
    given = tmp_path / "theirs.jsonl"
    given.write_text("".join(json.dumps({"id": row["id"], "answer": row["answer"]}) + "\n" for row in read_rows(run)))
    out = tmp_path / "runs" / "theirs"
    words = ("score", given, "--questions", world / "questions.jsonl", "--metrics", "em,f1[hotpot]", "-q")
    code, shown, err = verihop(*words, "--out", out)
    assert code == 0, err
    assert "em: 60 of 60 answers scored" in shown
    assert len(read_rows(out)) == 60
    code, shown, err = verihop("compare", run, out)
    assert code == 0, err
    assert "12 questions" in shown


MISTAKES = (
    (("{run}", "--metrics", "passage_recall@0"), "write passage_recall@k, k a whole number from 1 to 1000"),
    (("{run}", "--metrics", "nope"), "Unknown metric 'nope'"),
    (("{run}", "--metrics", ","), "No metric is named"),
    (("{run}", "--metrics", "no_such_module_x:y"), "there is no module 'no_such_module_x'"),
    (("{run}", "--metrics", "acc[judge]"), "name a judge LM"),
    (("{run}", "--metrics", "em", "--judge-lm", "simulated"), "The judge LM has nothing to decide"),
    (("{run}", "--metrics", "em", "--oracle", "lexical"), "An oracle decides only"),
    (("{run}", "--metrics", "hit@1", "--index", "x", "--passages", "y"), "name the index or the passages"),
    (("{run}", "--metrics", "hit@1", "--index", "nowhere"), "nowhere"),
    (("{run}", "--metrics", "hit@1", "--passages", "nowhere"), "No file 'nowhere'"),
    (("{run}", "--metrics", "hit@1", "--questions", "nowhere"), "No file 'nowhere'"),
    (("{run}", "--metrics", "hit@1", "--out", "x"), "omit --out"),
    (("{run}", "--metrics", "str_em"), "str_em needs short answers of sub-questions, which 12 answers lack"),
    (("nowhere", "--metrics", "em"), "is not the folder of a run"),
    (("nowhere", "--metrics", "em", "--out", "x", "--questions", "{questions}"), "No file 'nowhere'"),
    (("{questions}", "--metrics", "em", "--out", "x", "--questions", "{questions}"), "line 1: 'answer'"),
    (("{empty}", "--metrics", "em"), "is not the folder of a run"),
)


@pytest.mark.slow
def test_mistakes_are_one_line_and_change_nothing(verihop, run, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    named = {"run": run, "questions": world / "questions.jsonl", "empty": tmp_path / "empty"}
    for words, message in MISTAKES:
        code, _, err = verihop("score", *(word.format(**named) for word in words), "-q")
        assert (code, message in err, "Traceback" in err) == (2, True, False), err
        assert len([line for line in err.splitlines() if line.startswith("verihop:")]) == 1
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert list((tmp_path / "empty").iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_damaged_runs_are_one_line(verihop, run, tmp_path):
    for name, content in (("rows.jsonl", b"{}\n"), ("run.json", b"{"), ("run.json", b'{"kind": "judgements"}')):
        broken = tmp_path / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(run, broken)
        (broken / name).write_bytes(content)
        code, _, err = verihop("score", broken, "--metrics", "hit@1", "-q")
        assert (code, err.count("\n")) == (2, 1), err


def test_details_that_no_program_writes_are_one_line(verihop, run):
    rows = [json.loads(line) for line in (run / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        row["details"] = {"verifications": [3]}
    (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = verihop("score", run, "--metrics", "judgement[cov]", "-q")
    assert (code, err.count("\n")) == (2, 1), err
    assert "cannot be scored (TypeError" in err


def test_an_artifact_that_names_an_own_metric_does_not_import_it(verihop, world, tmp_path, monkeypatch):
    from programs.artifact import freeze
    from programs.catalog import build

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil_artifact_metric.py").write_text("raise RuntimeError('imported')")
    freeze(build("cot"), tmp_path / "made", metric={"name": "evil_artifact_metric:score", "definition": "x"})
    words = ("--artifact", tmp_path / "made", "--lm", "simulated", "--limit", "2", "--metrics", "em", "-q")
    code, _, err = verihop("eval", world / "questions.jsonl", *words, "--out", tmp_path / "run")
    assert code == 0, err
    assert "evil_artifact_metric" not in sys.modules


def test_all_metrics_are_listed_at_80_columns(verihop):
    from optimizers.metrics.catalog import METRICS, ORACLE_METRICS
    from optimizers.metrics.scoring import COSTS

    code, out, _ = verihop("metrics")
    assert code == 0
    assert [line for line in out.splitlines() if len(line) > 80 and not line.strip().startswith("https://")] == []
    names = {line.strip().removesuffix(" (lower is better)") for line in out.splitlines()}
    expected = {f"{name.partition('@')[0]}@k" if "@" in name else name for name in METRICS}
    assert {*expected, *ORACLE_METRICS, *COSTS, "pass@k[metric]", "ece[metric]"} <= names
    assert "  uncited (lower is better)" in out


def test_one_metric_is_described_and_as_json(verihop):
    code, out, _ = verihop("metrics", "ndcg@7")
    assert code == 0
    assert "first 7 different" in " ".join(out.split())
    code, out, _ = verihop("metrics", "claim_recall", "--json")
    record = json.loads(out)["claim_recall"]
    assert (code, record["higher_is_better"]) == (0, True)
    assert record["needs"] == ["key facts", "texts of the passages read", "entailment oracle"]
    assert (record["gold"], record["model"], record["range"]) == (["key facts"], "entailment oracle", [0, 1])
    assert record["source"].startswith("https://")
    assert "From 0 to 1, lower is better." in verihop("metrics", "uncited")[1]
    assert "0 or more, lower is better." in verihop("metrics", "tokens")[1]
    assert verihop("metrics", "nope")[0] == 2


def test_every_metric_says_what_it_is(verihop):
    records = json.loads(verihop("metrics", "--json")[1])
    for name, record in records.items():
        assert len(record["definition"]) > 20, name
        assert record["range"] in ([0, 1], [0, None]), name
        assert isinstance(record["higher_is_better"], bool), name
        # What is ours alone, and what is counted, has no published definition.
        assert record["source"] or record["range"] == [0, None] or name == "confidence[known]", name
    assert {record["model"] for record in records.values()} == {None, "judge LM", "entailment oracle"}
    assert records["em"]["gold"] == ["gold answers"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ece[em]", "Expected calibration error"),
        ("auroc[em]", "a right answer has a higher confidence"),
        ("selective[em]@50", "highest confidence"),
        ("pass@2[em]", "Probability that one of k answers"),
        ("majority[acc[judge]]", "most repeats"),
        ("confidence[known]", "Share of the answers with a confidence"),
        ("trajectory_rouge_l", "Similarity of the trajectories"),
        ("some_module:score", "The module is not imported here"),
    ],
)
def test_names_that_summaries_print_are_described(verihop, name, shown):
    code, out, err = verihop("metrics", name)
    assert code == 0, err
    assert shown in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert "some_module" not in sys.modules


@pytest.mark.parametrize("name", ["eval", "score"])
def test_help_names_the_default_oracle_and_where_its_metrics_are_listed(verihop, name):
    code, out, _ = verihop(name, "--help")
    text = " ".join(out.replace("│", " ").split())
    assert code == 0
    assert "the metrics that need one (`verihop metrics` lists them)" in text
    assert "lexical (default)" in text


def test_predictions_of_one_split_are_scored_on_its_questions_alone(verihop, run, world, tmp_path):
    questions, given = world / "questions.jsonl", tmp_path / "theirs.jsonl"
    asked = [json.loads(line) for line in questions.read_text().splitlines()]
    dev = [each for each in asked if each["split"] == "dev"]
    assert 0 < len(dev) < len(asked)
    given.write_text("".join(json.dumps({"id": each["id"], "answer": each["answers"][0]}) + "\n" for each in dev))
    words = ("score", given, "--questions", questions, "--metrics", "em", "--split")
    code, out, err = verihop(*words, "dev", "--out", tmp_path / "out", "--json")
    assert code == 0, err
    em = json.loads(out)["metrics"]["em"]
    assert (em["n"], em["mean"]) == (len(dev), 1.0)
    code, _, err = verihop(*words, "deev", "--out", tmp_path / "none")
    assert (code, "No question has the split 'deev'" in err) == (2, True)
    code, _, err = verihop("score", run, "--metrics", "f1", "--split", "dev")
    assert (code, "omit --split dev" in err) == (2, True)
