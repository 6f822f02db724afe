"""`--log json`: every line on standard error is a JSON object, without a key, and without texts unless asked for."""

import errno
import json
from pathlib import Path

import pytest

from signatures.common.secrets import register
from tests.conftest import load_module

hostile_server = load_module(Path(__file__).with_name("hostile_server.py")).hostile_server
KEY = "sk-live-3e9a8b7c6d5e4f3d"


def reply(system, user):
    return "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa Merrow"


@pytest.fixture
def evaluate(verihop, world, tmp_path):
    """Return a function that evaluates two questions, and returns the code and the lines on standard error."""

    def run(*options):
        asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "cot", "--out", tmp_path / "run")
        code, _, err = verihop(*asked, *options)
        return code, [json.loads(line) for line in err.splitlines()]

    return run


def test_a_run_logs_its_questions(evaluate, scripted_lm):
    scripted_lm(reply)
    code, lines = evaluate("--log", "json")
    assert code == 0
    events = [line["event"] for line in lines]
    assert "run_started" in events
    assert events.count("question") == 2
    assert "run_ended" in events
    question = next(line for line in lines if line["event"] == "question")
    assert (question["calls"], question["prompt_tokens"], question["scores"]["em"]) == (1, 10, 0.0)
    assert "Ansa" not in json.dumps(lines)
    assert all({"time", "level", "event"} <= set(line) for line in lines)


def test_debug_logs_texts_and_a_variable_asks_for_it(evaluate, scripted_lm, monkeypatch):
    scripted_lm(reply)
    monkeypatch.setenv("VERIHOP_LOG", "json:debug")
    _, lines = evaluate()
    texts = [line for line in lines if line["event"] == "question_texts"]
    assert [line["answer"] for line in texts] == ["Ansa Merrow"] * 2


def test_errors_of_the_user_are_events_with_the_same_exit_codes(evaluate, scripted_lm):
    scripted_lm(reply)
    code, lines = evaluate("--log", "json", "--metrics", "nonsense")
    assert (code, lines[-1]["event"], lines[-1]["level"]) == (2, "user_error", "error")
    assert "nonsense" in lines[-1]["message"]
    scripted_lm(reply)
    code, lines = evaluate("--log", "json", "--budget", "calls=1", "--threads", 1)
    assert code == 3
    assert next(line for line in lines if line["event"] == "run_ended")["stopped"]


def test_another_form_is_refused(verihop, world, tmp_path):
    asked = ("eval", world / "questions.jsonl", "--program", "cot", "--out", tmp_path / "run", "--log", "xml")
    code, _, err = verihop(*asked)
    assert (code, "Choose from: text, json, json:debug." in err) == (2, True)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("status", [200, 401])
def test_no_key_is_logged(status, evaluate, monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_SECRET", KEY)
    with hostile_server(lambda headers: "Ansa " + json.dumps(headers), status=status) as host:
        server = ("--lm", "m", "--api-base", f"http://ann:{KEY}@{host}/v1", "--api-key-env", "LAB_SECRET")
        _, lines = evaluate("--log", "json:debug", "--retries", 0, *server)
    assert lines
    assert KEY not in json.dumps(lines)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert kept == []
    if status == 200:
        from experiments.runs.calls import call_frames, read_calls

        calls = [call for frame in call_frames(tmp_path / "run") for call in read_calls(tmp_path / "run", frame)]
        assert "Ansa" in json.dumps(calls)
        assert KEY not in json.dumps(calls)


def test_a_compilation_and_a_study_log_what_they_say(verihop, world, tmp_path):
    asked = ("--program", "rag", "--limit", 4, "--index", world / "index", "--lm", "simulated", "--log", "json")
    code, out, err = verihop("compile", world / "questions.jsonl", *asked, "--out", tmp_path / "made")
    lines = [json.loads(line) for line in err.splitlines()]
    ended = next(line for line in lines if line["event"] == "compile_ended")
    assert (code, "stopped" in ended, ended["artifact"]) == (0, False, str(tmp_path / "made"))
    assert ended["calls"] > 0
    assert "Frozen: " in out
    study = ("--trials", 2, "--sampler", "random", "--folds", 0, "--out", tmp_path / "study")
    code, _, err = verihop("tune", world / "questions.jsonl", *asked, *study)
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 0
    ended = next(line for line in lines if line["event"] == "study_ended")
    assert (ended["folder"], 0 <= ended["score"] <= 1) == (str(tmp_path / "study"), True)
    code, _, err = verihop("tune", world / "nowhere.jsonl", *asked, *study)
    assert (code, json.loads(err)["event"]) == (2, "user_error")


@pytest.mark.filterwarnings("default")
def test_a_crash_is_one_object_without_a_key(evaluate, scripted_lm, monkeypatch):
    scripted_lm(reply)
    monkeypatch.setenv("LAB_SECRET", KEY)

    def crash(*arguments, **options):
        raise ValueError(f"the key is {KEY}\nand more")

    monkeypatch.setattr("experiments.pipeline.evaluate.evaluate", crash)
    register(KEY)
    code, lines = evaluate("--log", "json")
    assert (code, lines[-1]["level"], lines[-1]["event"]) == (1, "error", "crashed")
    assert lines[-1]["exception"].startswith("ValueError: the key is ")
    assert "in crash\n" in lines[-1]["traceback"]
    assert KEY not in json.dumps(lines)


def test_a_full_disk_is_an_error_of_the_user(evaluate, scripted_lm, monkeypatch):
    scripted_lm(reply)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device", "rows.jsonl")

    monkeypatch.setattr("experiments.pipeline.evaluate.evaluate", full)
    code, lines = evaluate("--log", "json")
    assert (code, lines[-1]["event"]) == (2, "user_error")
    assert "Free some space" in lines[-1]["message"]


def test_the_settings_that_hold_are_a_line_as_well(evaluate, scripted_lm, monkeypatch):
    scripted_lm(reply)
    monkeypatch.setenv("VERIHOP_THREADS", "2")
    code, lines = evaluate("--log", "json")
    assert (code, lines[0]["event"], lines[0]["message"]) == (0, "note", "Settings: threads=2 (VERIHOP_THREADS)")


@pytest.mark.parametrize(
    "words",
    [("--log", "json", "--odd"), ("--log=json", "--limit", "x"), ("--resume", "more"), ("--log=json", "--config")],
)
def test_wrong_words_and_settings_are_lines_as_well(words, evaluate, monkeypatch):
    if "--resume" in words:
        monkeypatch.setenv("VERIHOP_LOG", "json")
    code, (line,) = evaluate(*words)
    assert (code, line["event"]) == (2, "user_error")
    assert any(word in line["message"] for word in words[-2:])
    for variable in ("VERIHOP_CONFIG", "VERIHOP_THREADS"):
        monkeypatch.setenv(variable, "many")
        code, (line,) = evaluate("--log", "json")
        assert (code, variable in line["message"]) == (2, True)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", ["json", "json:debug"])
def test_a_reply_is_quoted_only_if_asked_for(form, evaluate):
    with hostile_server(lambda headers: "Ansa says nothing", schema=False) as host:
        code, lines = evaluate("--log", form, "--lm", "m", "--api-base", f"http://{host}/v1")
    (said,) = (line["message"] for line in lines if "could be parsed" in line.get("message", ""))
    assert (code, said.startswith("No reply of the LM (2 of 2) could be parsed, e.g. ")) == (1, True)
    assert ("Ansa says" in json.dumps(lines)) == (form == "json:debug")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", ["json", "json:debug"])
@pytest.mark.parametrize("status", [401, 500])
def test_an_error_of_a_server_is_quoted_only_if_asked_for(status, form, evaluate):
    with hostile_server(lambda headers: "You asked for Ansa", status=status) as host:
        server = ("--lm", "m", "--api-base", f"http://{host}/v1", "--retries", 0)
        code, lines = evaluate("--log", form, *server)
    assert (code, lines[-1]["event"]) == (2, "user_error")
    assert ("Ansa" in json.dumps(lines)) == (form == "json:debug")


@pytest.mark.parametrize("form", ["json", "json:debug"])
def test_the_first_error_of_a_run_is_quoted_only_if_asked_for(form, evaluate, scripted_lm):
    def fail(system, user):
        raise ValueError(f"no answer to {user}")

    scripted_lm(fail)
    code, lines = evaluate("--log", form)
    assert (code, lines[-1]["event"]) == (2, "user_error")
    assert "All 2 questions ended in an error; the first: LMUnexpectedError: " in lines[-1]["message"]
    assert ("no answer to" in lines[-1]["message"]) == (form == "json:debug")
