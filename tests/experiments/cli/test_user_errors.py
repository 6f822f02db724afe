"""User errors: one line that says what is wrong, code 2, and nothing is written."""

import errno
import os

import pytest

from experiments.cli.shared.app import user_error_message
from programs.artifact import freeze
from programs.catalog import build
from programs.lms.calls.metered import LMFiltered

SIMULATED = ("--lm", "simulated", "--quiet", "--index")


MISTAKES = {
    "unknown program": (["--program", "magic"], "Unknown program 'magic'. Choose from: a_rag, "),
    "unknown knob": (["--program", "rag", "--set", "kk=3"], "Unknown knob of RAG 'kk'"),
    "bad knob": (["--program", "rag", "--set", "k=99"], "Knob k must be a number from 1 to 20, got 99"),
    "no equals sign": (["--program", "rag", "--set", "k"], "--set takes name=value, got 'k'"),
    "unknown preset": (["--program", "rag", "--preset", "x"], "Unknown preset of rag 'x'"),
    "unknown metric": (["--program", "rag", "--metrics", "magic"], "Unknown metric 'magic'"),
    "unknown lm": (["--program", "rag", "--lm", "magic"], "Unknown LM 'magic'"),
    "unknown retriever": (["--program", "rag", "--retriever", "magic"], "Unknown retriever 'magic'"),
    "preset of an artifact": (["--artifact", "ARTIFACT", "--preset", "code"], "omit the preset 'code'"),
    "references without their kind": (["--program", "rag", "--n-references", 3], "--n-references needs --references"),
    "two programs": (["--program", "rag", "--artifact", "x"], "contains no artifact"),
    "no program": ([], "Name either a program or an artifact"),
    "empty split": (["--program", "rag", "--split", "test"], "No question has the split 'test'"),
    "no metric": (["--program", "rag", "--metrics", ","], "No metric is named"),
    "empty lm": (["--program", "rag", "--lm", ""], "Or: simulated"),
    "no weights": (["--program", "rag", "--lm", "gguf:missing.gguf"], "missing.gguf"),
    "key not set": (
        ["--program", "rag", "--lm", "m", "--api-base", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"],
        "NO_SUCH_KEY",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_is_one_line_and_code_2_and_writes_nothing(name, verihop, world, tmp_path):
    arguments, message = MISTAKES[name]
    if "ARTIFACT" in arguments:
        freeze(build("rag"), tmp_path / "artifact")
        arguments = [tmp_path / "artifact" if word == "ARTIFACT" else word for word in arguments]
    arguments = arguments if "--lm" in arguments else [*arguments, "--lm", "simulated"]
    out = tmp_path / "run"
    code, shown, err = verihop(
        "eval", world / "questions.jsonl", "--out", out, "--index", world / "index", "--quiet", *arguments
    )
    assert (code, shown) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("name", ["unknown program", "unknown preset", "unknown knob", "bad knob", "no program"])
def test_a_mistake_in_the_program_is_told_before_an_lm_is_asked(name, verihop, world, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", lambda *_, **__: pytest.fail("The LM was opened."))
    arguments, message = MISTAKES[name]
    index = () if name == "no program" else ("--index", world / "index")
    for lm in (("--lm", "m", "--api-base", "http://127.0.0.1:9/v1"), ("--lm", "simulated")):
        code, _, err = verihop("ask", *arguments, *index, *lm, "Who?")
        assert (code, message in err) == (2, True), err


def test_a_program_that_retrieves_needs_an_index(verihop, world, tmp_path):
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--out", tmp_path / "r", "--program", "rag", *SIMULATED[:-1]
    )
    assert (code, "name the folder of an index (index), built by `verihop index`" in err) == (2, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "1", "question": "Who?"', "questions.jsonl"),
        ('{"id": "1", "question": "  "}', "questions.jsonl"),
        ('{"id": "1"}', "questions.jsonl"),
        ("", "no question"),
        ('{"id": "1", "question": "x \\ud800 ?"}', "lone surrogate"),
    ],
)
def test_a_broken_question_file_is_told_with_file_and_line(line, message, verihop, world, tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text(line + "\n")
    code, _, err = verihop("eval", path, "--out", tmp_path / "run", "--program", "rag", *SIMULATED, world / "index")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert message in err


def test_a_corpus_with_duplicate_ids_is_refused_and_leaves_no_index(verihop, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "1", "text": "a"}\n{"id": "1", "text": "b"}\n')
    code, _, err = verihop("index", tmp_path / "p.jsonl", "--out", tmp_path / "index", "--retriever", "bm25", "--quiet")
    assert (code, "'1'" in err) == (2, True)
    assert not (tmp_path / "index" / "index.json").exists()


@pytest.mark.parametrize(("code", "cure"), [(errno.ENOSPC, "Free some space"), (errno.EFBIG, "ulimit -f")])
def test_a_full_disk_is_one_line(code, cure, verihop, world, tmp_path, monkeypatch):
    def full(*arguments, **keywords):
        raise OSError(code, os.strerror(code), str(tmp_path / "artifact"))

    monkeypatch.setattr("programs.artifacts.freezing.dump", full)
    ended, _, err = verihop("compile", world / "questions.jsonl", "--program", "rag", "--limit", 2, "--out",
                            tmp_path / "artifact", *SIMULATED, world / "index")  # fmt: skip
    assert (ended, f"{os.strerror(code)}: {tmp_path}" in err, cure in err) == (2, True, True)
    assert not (tmp_path / "artifact").exists()


def test_a_content_filter_is_not_for_settings_to_mend():
    message = user_error_message(LMFiltered("A content filter of LM m refuses this question: filtered"))
    assert message == "A content filter of LM m refuses this question: filtered. Ask in other words, or another LM."


def test_a_run_never_stands_among_other_files(verihop, world, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--program", "rag", "--out", tmp_path, *SIMULATED, world / "index"
    )
    assert (code, "contains other files" in err) == (2, True)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_file_where_a_folder_is_needed_is_one_line(verihop, tmp_path):
    (tmp_path / "taken").write_text("x")
    code, _, err = verihop("data", "world", "--questions", 5, "--out", tmp_path / "taken")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "There is a file where a folder is needed" in err


def test_a_world_replaces_no_corpus_of_the_user(verihop, tmp_path):
    world = ("data", "world", "--questions", 5, "--out", tmp_path)
    (tmp_path / "passages.jsonl").write_text("mine")
    code, _, err = verihop(*world)
    assert (code, "exists already" in err) == (2, True)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]
    assert verihop(*world, "--overwrite")[0] == 0


def test_an_edited_index_is_refused(verihop, world, tmp_path):
    import shutil

    shutil.copytree(world / "index", tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(path.read_text().replace('"files": {', '"files": {}, "old": {'))
    code, _, err = verihop("ask", "Who?", "--program", "rag", *SIMULATED[:2], "--index", tmp_path / "index")
    assert (code, "has changed since it was written" in err) == (2, True)


def test_a_question_of_broken_bytes_is_one_line(verihop, world):
    code, _, err = verihop("ask", "who \udcff?", "--program", "rag", *SIMULATED[:2], "--index", world / "index")
    assert (code, "not valid UTF-8" in err) == (2, True)


def test_options_that_select_from_nothing_are_refused(verihop, world, tmp_path):
    questions = world / "questions.jsonl"
    made = ("compile", questions, "--program", "rag", "--index", world / "index", "--out", tmp_path / "a")
    code, _, err = verihop(*made, *SIMULATED[:2], "--val-split", "dev")
    assert (code, "--val-split and --val-limit select questions of --val" in err) == (2, True)
    asked = ("eval", questions, "--program", "cot", "--retriever", "bm25", "--out", tmp_path / "b")
    code, _, err = verihop(*asked, *SIMULATED[:2])
    assert (code, "The retriever bm25 needs an index" in err) == (2, True)
    assert sorted(tmp_path.iterdir()) == []
