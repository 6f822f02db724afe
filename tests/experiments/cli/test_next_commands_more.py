"""The lines printed as "Next:" of lists, documents, artifacts and checks run as printed, with spaces and quotes."""

from pathlib import Path

import pytest

from tests.next_lines import check_parses, next_lines


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Return the working folder, which has a space and a quote in its name."""
    folder = tmp_path / 'Ann\'s "new" work'
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def artifact(verihop, world, here) -> Path:
    words = ("--limit", 2, "--program", "rag", "--index", world / "index", "--lm", "simulated", "-q")
    assert verihop("compile", world / "questions.jsonl", *words, "--out", "my artifact")[0] == 0
    return Path("my artifact")


def test_lists_need_no_files(following, here):
    assert following("metrics") == [["verihop", "metrics", "ndcg@10"]]
    assert following("optimizers") == [["verihop", "programs", "genground"]]
    assert following("programs") == [["verihop", "programs", "genground"]]


@pytest.mark.slow
def test_a_program_is_asked_on_an_index_that_is_there(verihop, here, world):
    def line(*words: object) -> list[str]:
        return next_lines(verihop(*words)[2])[0]

    assert line("programs", "genground") == ["verihop", "demo"]  # which makes an index, runs/demo/index
    assert line("programs", "cot") == ["verihop", "ask", "--program", "cot", "your question"]
    (here / "index").symlink_to(world / "index")
    words = ["verihop", "ask", "--program", "genground", "--index", "index", "your question"]
    assert line("programs", "genground") == words
    assert line("programs", "check", "genground") == words
    assert verihop(*words[1:], "--lm", "simulated")[0] == 0
    assert "Next" not in verihop("programs", "check", "genground", "--json")[2]


def test_optimizers_estimate_a_compilation_of_the_questions_that_are_there(following, here, world):
    (here / "index").symlink_to(world / "index")
    (here / "questions.jsonl").symlink_to(world / "questions.jsonl")
    (words,) = following("optimizers", "--program", "rag")
    assert words[1:5] == ["compile", "questions.jsonl", "--program", "rag"]
    assert not Path("artifacts").exists()  # an estimate


def test_documents_are_indexed_without_touching_another_index(following, here, verihop, monkeypatch):
    monkeypatch.setattr("experiments.cli.corpus.index.RETRIEVER", "bm25")
    (here / "my docs").mkdir()
    (here / "my docs" / "gate.md").write_text("# The gate\n\nAnsa keeps the gate.\n")
    (words,) = following("ingest", "my docs", "--out", "new passages.jsonl", "-q")
    assert words == ["verihop", "index", "new passages.jsonl"]
    (words,) = following("ingest", "my docs", "--out", "new passages.jsonl", "-q", "--overwrite")
    assert words == ["verihop", "index", "new passages.jsonl", "--out", "index-2"]
    (words,) = next_lines(verihop("search", "Who keeps the gate?", "--index", "index")[2])
    assert verihop(*words[1:], "--lm", "simulated")[0] == 0


def test_artifacts_are_shown_compared_and_combined(following, artifact, verihop):
    assert following("artifact", "verify", artifact) == [["verihop", "artifact", "show", "my artifact"]]
    assert [words[2] for words in following("artifact", "show", artifact)] == ["export"]
    ask, show = following("artifact", "ensemble", artifact, artifact, "--out", "Ann's both")
    assert (ask[1], show[1:3]) == ("ask", ["artifact", "show"])
    _, diff = following("artifact", "show", artifact)
    assert diff[2:] == ["diff", "Ann's both", "my artifact"]
    (ask,) = following(*diff[1:])
    assert ask[1:4] == ["ask", "--artifact", "my artifact"]


def test_a_question_leads_to_its_calls(following, here, world, verihop):
    words = ("--program", "rag", "--set", "k=2", "--index", world / "index", "--lm", "simulated")
    (traced,) = following("ask", *words, "--", "-x- isn't it?")
    assert traced[-3:] == ["--trace", "--", "-x- isn't it?"]
    assert {"k=2", "simulated", str(world / "index")} <= {*traced}
    assert "Next: " not in verihop(*traced[1:])[2]


@pytest.mark.slow
@pytest.mark.parametrize("changed", [[], ["--split", "dev"], ["--limit", "3"], ["--split", "dev", "--limit", "2"]])
def test_a_replay_leads_to_a_study_of_the_same_questions(changed, following, verihop, here, world):
    words = ("--set", "gate=threshold", "--metrics", "em", "--index", world / "index", "--lm", "simulated", "-q")
    record = ("--record-branches", "--branches", 1, "--out", "Ann's run")
    (here / "q.jsonl").write_text("".join((world / "questions.jsonl").read_text().splitlines(keepends=True)[:12]))
    assert verihop("eval", "q.jsonl", "--program", "cov_rag", *words, *changed, *record)[0] == 0
    (study,) = next_lines(verihop("replay", "Ann's run", "--set", "correctness_below=0.3")[2])
    assert study == [
        "verihop", "tune", "q.jsonl", "--program", "cov_rag", "--set", "gate=threshold", "--lm", "simulated", *changed,
        "--metric", "em", "--replay", "Ann's run", "--out", "tuned",
    ]  # fmt: skip
    code, out, err = verihop(*study[1:], "--trials", 2, "--sampler", "random", "--folds", 0)
    assert (code, "LM calls sent: 0" in out) == (0, True), err


def test_settings_and_checks(following, here, monkeypatch):
    monkeypatch.setattr("pathlib.Path.home", lambda: here)
    monkeypatch.delenv("VERIHOP_CONFIG")
    assert following("config", "--lm", "simulated") == [["verihop", "config", "--init", "--lm", "simulated"]]
    assert following("config") == [["verihop", "doctor"]]
    assert following("doctor") == [["verihop", "ask", "--program", "cot", "your question"]]


def test_a_run_is_scored_and_compared(following, verihop, here, world):
    words = ("--limit", 2, "--index", world / "index", "--lm", "simulated", "-q", "--out")
    for program in ("cot", "rag"):
        assert verihop("eval", world / "questions.jsonl", "--program", program, *words, f"my runs/{program}")[0] == 0
    (compare,) = following("score", "my runs/rag", "--metrics", "hit@3")
    assert compare == ["verihop", "compare", "my runs/cot", "my runs/rag"]


def test_shards_lead_to_the_next_one_and_to_the_merged_run(following, verihop, here, world):
    words = ("eval", world / "questions.jsonl", "--limit", 4, "--program", "cot", "--lm", "simulated", "-q")
    ((*_, out),) = following(*words, "--shard", "1/2", "--out", "all shards/a")
    assert out == "all shards/shard-2"
    (merge,) = next_lines(verihop(*words, "--shard", "2/2", "--out", out, "--resume")[2])
    assert merge[1] == "merge"
    assert following(*merge[1:])[0][1] in ("compare", "metrics")


@pytest.mark.slow
def test_a_study_leads_to_a_question(following, here, world):
    words = ("--limit", 4, "--program", "rag", "--index", world / "index", "--lm", "simulated", "-q")
    lines = following("tune", world / "questions.jsonl", *words, "--trials", 2, "--folds", 0, "--out", "Ann's study")
    assert lines[0][1:4] == ["ask", "--artifact", str(Path("Ann's study") / "artifact")]


def test_a_line_that_does_not_parse_is_found():
    for words in (["verihop", "evaluate"], ["verihop", "compare", "a", "--bye"], ["verihop", "eval", "a"]):
        with pytest.raises(Exception, match="(?i)no such|missing"):
            check_parses(words)
