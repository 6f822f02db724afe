"""`verihop doctor`: what works, what does not, and the cure, for every kind of LM."""

import json
import sys
from pathlib import Path

import pytest

from corpora.sync.sync import SyncSettings, sync_documents
from experiments.pipeline import doctor
from signatures.common.errors import UserError
from tests.conftest import load_module

pytestmark = pytest.mark.filterwarnings("default")  # notices of the servers are errors elsewhere
SERVERS = load_module(Path(__file__).parents[2] / "programs" / "lms" / "servers" / "quirks.py")
hostile_server = load_module(Path(__file__).with_name("hostile_server.py")).hostile_server
MODEL = SERVERS.MODEL


@pytest.fixture
def doctored(verihop):
    """Return a function that runs the command and returns the exit code and the checks by name."""

    def run(*arguments) -> tuple[int, dict[str, dict]]:
        code, out, _ = verihop("doctor", *arguments, "--json")
        found = json.loads(out)
        checks = {check["name"]: check for check in found["checks"]}
        assert found["failed"] == [name for name, check in checks.items() if check["state"] == "failed"]
        assert all(check["cure"] for check in checks.values() if check["state"] != "ok")
        assert code == (1 if found["failed"] else 0)
        return code, checks

    return run


def test_the_simulated_lm_and_an_index_work(doctored, world):
    code, checks = doctored("--lm", "simulated", "--index", world / "index")
    assert code == 0
    assert checks["Python"]["found"].startswith(sys.version.split()[0])
    for name in (
        "packages",
        "cache",
        "index",
        "LM",
        "context",
        "P(yes)",
        "structured output",
        "demo question",
        "thinking",
    ):
        assert checks[name]["state"] == "ok", name
    assert "tokens/s" in checks["speed"]["found"]


def test_the_page_for_people_says_the_same(verihop):
    code, out, err = verihop("doctor", "--lm", "simulated")
    assert (code, err) == (0, "Next: verihop ask --program cot --lm simulated 'your question'\n")
    assert "ok       context            8,192 tokens\n" in out
    assert out.rstrip().splitlines()[-1].startswith("Everything works")


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS.SERVERS)
def test_each_server_is_found_with_what_it_can(name, doctored):
    dialect, quirks = SERVERS.SERVERS[name]
    server = SERVERS.standin.StandIn(quirks)
    try:
        code, checks = doctored("--lm", MODEL, "--api-base", server.api_base)
    finally:
        server.close()
    assert code == 0, checks
    assert checks["server"]["state"] == "ok"
    assert f"dialect {dialect}" in checks["LM"]["found"]
    assert checks["thinking"]["found"].startswith("off" if quirks.thinks == "never" else "on")
    mode = checks["P(yes)"]["found"].partition(":")[0]
    assert checks["P(yes)"]["state"] == ("ok" if mode == "logprobs" else "warning")
    if quirks.logprobs in ("none", "chosen"):
        assert mode == "samples"
    assert "No answer" not in checks["demo question"]["found"]


def test_thinking_that_eats_the_answer_is_a_failure_with_its_cure(doctored):
    server = SERVERS.standin.StandIn(SERVERS.Quirks(owner="vllm", thinks="always", thinking_at="reasoning"))
    try:
        code, checks = doctored("--lm", MODEL, "--api-base", server.api_base, "--thinking-tokens", 8, "--max-tokens", 8)
    finally:
        server.close()
    assert code == 1
    assert checks["thinking"]["state"] == "failed"
    assert "thinking_tokens" in checks["thinking"]["cure"]


def test_a_server_that_is_down_is_said_at_once(doctored):
    _, checks = doctored("--lm", "m", "--api-base", "http://127.0.0.1:1/v1")
    assert checks["server"]["state"] == "failed"
    assert "Start the server" in checks["server"]["cure"]
    assert "LM" not in checks


def test_a_wrong_model_lists_those_that_are_there(doctored):
    with hostile_server(lambda headers: "the model `x` does not exist", status=404) as host:
        code, checks = doctored("--lm", "x", "--api-base", f"http://{host}/v1")
    assert code == 1
    assert checks["server"]["cure"] == "Name one of its models: m."
    assert "does not exist" in checks["LM"]["found"]


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [(401, "failed", "api_key_env"), (403, "failed", "api_key_env"), (404, "warning", "/v1"), (200, "warning", "/v1")],
)
def test_a_wrong_key_and_a_wrong_path_are_told_apart(status, state, words, doctored):
    with hostile_server(lambda headers: "no", status=status, models=status) as host:
        _, checks = doctored("--lm", "m", "--api-base", f"http://{host}/v1")
    assert checks["server"]["state"] == state
    assert words in checks["server"]["cure"]


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(429, "slow", "limits the rate"), (503, "loading", "is busy"), (429, "insufficient_quota", "credit")],
)
def test_a_limit_of_the_rate_and_no_credit_are_no_wrong_key(status, code, words, doctored):
    with hostile_server(lambda headers: code, status=status, models=status) as host:
        ended, checks = doctored("--lm", "m", "--api-base", f"http://{host}/v1")
    assert (ended, checks["server"]["state"]) == (1, "warning")
    assert f"(HTTP {status})" in checks["server"]["found"]
    assert words in checks["LM"]["cure"]
    assert "To fix" not in checks["LM"]["found"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--lm", "nosuch"), "Unknown LM"),
        (("--lm", "gguf:/none.gguf"), "/none.gguf"),
        (("--lm", "openai/gpt-4o-mini"), "OPENAI_API_KEY"),
        (("--lm", "m", "--api-base", "nowhere"), "nowhere"),
        (("--lm", "m", "--api-base", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY"),
    ],
)
def test_every_lm_id_that_does_not_work_is_a_line_and_no_traceback(arguments, words, doctored, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, checks = doctored(*arguments)
    assert code == 1
    assert words in " ".join(check["found"] for check in checks.values() if check["state"] == "failed")


def test_a_reply_that_cannot_be_read_is_shown(doctored):
    with hostile_server(lambda headers: "Perhaps.", schema=False) as host:
        code, checks = doctored("--lm", "m", "--api-base", f"http://{host}/v1")
    assert code == 1
    assert checks["P(yes)"]["state"] == "failed"
    assert "Perhaps." in checks["structured output"]["found"]
    assert "larger" in checks["structured output"]["cure"]


def test_a_schema_that_is_not_followed_is_a_warning(doctored):
    quirks = SERVERS.Quirks(owner="vllm", entry={"max_model_len": 8192}, ignores_schema=True)
    server = SERVERS.standin.StandIn(quirks)
    server.completion = lambda body: {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": FENCED}}],
    }
    try:
        _, checks = doctored("--lm", MODEL, "--api-base", server.api_base)
    finally:
        server.close()
    assert checks["structured output"]["state"] == "warning"
    assert checks["speed"]["state"] == "warning"  # it reports no tokens either


FENCED = 'Yes. ```json\n{"finished": "no", "sub_question": "Who?", "answer": "Ansa"}\n```'


def test_a_damaged_index_is_a_failure(doctored, tmp_path):
    (tmp_path / "index.json").write_text("{}")
    code, checks = doctored("--lm", "simulated", "--index", tmp_path)
    assert code == 1
    assert checks["index"]["state"] == "failed"


def test_an_index_of_any_language_finds_its_own_passage(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Die Mühle am Bach mahlt Korn.", encoding="utf-8")
    sync_documents([tmp_path / "docs"], tmp_path / "index", SyncSettings(retriever="bm25"))
    assert doctor.check_index(tmp_path / "index").state == "ok"
    (tmp_path / "index" / "index.json").write_text("{}")
    assert "delete it, then verihop sync" in doctor.check_index(tmp_path / "index").cure


def test_an_index_of_another_user_is_not_to_be_built_again(tmp_path, monkeypatch):
    def refused(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("corpora.index.manifest.read_info", refused)
    assert doctor.check_index(tmp_path).cure == "Let this user read its files."


def test_a_cache_that_cannot_be_written_is_a_failure(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "file" / "cache"))
    check = doctor.check_cache()
    assert check.state == "failed"
    assert "VERIHOP_CACHE_DIR" in (check.cure or "")


@pytest.mark.parametrize(("needed", "state"), [(True, "failed"), (False, "warning")])
def test_missing_weights_matter_only_for_the_embedded_lm(needed, state, monkeypatch):
    def missing() -> Path:
        raise UserError("The embedded LM's weights are missing.")

    monkeypatch.setattr("programs.lms.weights.choice.weights_path", missing)
    assert doctor.check_weights(needed=needed).state == state


def test_packages_are_compared_with_what_is_required_and_what_was_tested(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "requires", lambda name: ["numpy>=999", "no-such-package>=1", "pytest; extra == 'dev'"])
    (tmp_path / "constraints.txt").write_text("# pins\nnumpy==0.1\nno-such-package==1\n")
    required, tested = doctor.check_packages(tmp_path / "constraints.txt")
    assert required.state == "failed"
    assert "needs >=999" in required.found
    assert "no-such-package missing" in required.found
    assert "pytest" not in required.found
    assert tested.state == "warning"
    assert "(tested: 0.1)" in tested.found
