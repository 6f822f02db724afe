"""`eval` on a server that answers as Ollama does for a thinking model: content empty, text in `reasoning`."""

import json
from pathlib import Path

import pytest

from tests.conftest import load_module

quirks = load_module(Path(__file__).parents[2] / "programs" / "lms" / "servers" / "quirks.py")


@pytest.fixture
def ollama():
    server = quirks.standin.StandIn(quirks.SERVERS["ollama, thinking"][1])
    yield server
    server.close()


def run(verihop, world, server, out: Path, *options) -> tuple[int, str, str]:
    return verihop(
        "eval", world / "questions.jsonl", "--limit", 3, "--out", out, "--program", "cot",
        "--lm", quirks.MODEL, "--api-base", server.api_base, "--quiet", "--max-tokens", 50, *options,
    )  # fmt: skip


def test_a_thinking_model_answers(verihop, world, ollama, tmp_path):
    code, _, err = run(verihop, world, ollama, tmp_path / "run")
    assert code == 0, err
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert [row["parse_failures"] for row in rows] == [0, 0, 0]
    assert all(row["answer"] for row in rows)
    assert all(row["reasoning_tokens"] > 0 for row in rows)
    for row in rows:
        (thought,) = row["thinking"]
        assert thought["predictor"]
        assert thought["text"].startswith("Let me see what the passages say")
        assert "Let me see" not in row["answer"] + row["response"] + json.dumps(row["hops"])


def test_the_server_is_recorded_but_a_run_resumes_after_its_update(verihop, world, ollama, tmp_path):
    out = tmp_path / "run"
    assert run(verihop, world, ollama, out)[0] == 0
    recorded = json.loads((out / "run.json").read_text())
    assert (recorded["server"]["dialect"], recorded["server"]["version"]) == ("ollama", "0.40.12")
    assert recorded["server"]["context_size"] == 16384
    assert recorded["server"]["thinks"] is True
    ollama.quirks.gets["/api/version"]["version"] = "0.41.0"
    try:
        assert run(verihop, world, ollama, out, "--resume")[0] == 0
    finally:
        ollama.quirks.gets["/api/version"]["version"] = "0.40.12"
    code, _, err = run(verihop, world, ollama, out, "--resume", "--reasoning", "low")
    assert code == 2, err  # another experiment


@pytest.mark.filterwarnings("ignore::signatures.common.errors.UserNotice")
def test_a_run_in_which_thinking_took_every_reply_is_no_success(verihop, world, ollama, tmp_path):
    code, _, err = run(verihop, world, ollama, tmp_path / "run", "--thinking-tokens", 5)
    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "All 3 replies of the LM contained only thinking and no answer" in last
    assert "raise thinking_tokens, or set reasoning to low or off" in last


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--reasoning", "much"), "auto, high, low, medium, off"), (("--server", "tgi"), "llamacpp, lmstudio, ollama")],
)
def test_a_name_that_does_not_exist_says_what_does(verihop, world, ollama, tmp_path, options, message):
    code, _, err = run(verihop, world, ollama, tmp_path / "run", *options)
    assert code == 2
    assert message in err


def test_a_server_without_its_url_is_refused(verihop, world, tmp_path):
    code, _, err = verihop("eval", world / "questions.jsonl", "--out", tmp_path / "run", "--program", "cot",
                           "--lm", "simulated", "--server", "ollama")  # fmt: skip
    assert code == 2
    assert "needs its URL" in err
