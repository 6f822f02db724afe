"""A folder that was cloned or unpacked redirects nobody: what merely lies in it chooses no host, key, cache or code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from programs.lms.embedded import EmbeddedEngine
from signatures.common.errors import UserError
from tests.loopback import JsonHandler, Loopback

SECRET = "canary-of-another-service-4711"
ROOT = Path(__file__).parents[4]


@pytest.fixture
def listener():
    """Return a server that notes what reaches it, and the notes."""
    seen: list[str] = []

    class Handler(JsonHandler):
        def get(self) -> None:
            seen.append(f"{self.command} {self.path} {self.headers}")
            self.reply(500, {})

        post = get

    server = Loopback(Handler)
    yield server.base, seen
    server.close()


@pytest.fixture
def cloned(verihop, tmp_path, monkeypatch, own_cache, world):
    """Return a function that writes the settings file of a cloned repository, below which commands run."""
    folder = tmp_path / "clone"
    (folder / "part").mkdir(parents=True)
    (folder / ".git").mkdir()
    monkeypatch.delenv("VERIHOP_CONFIG")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.chdir(folder)

    def write(text: str) -> Path:
        (folder / "verihop.toml").write_text(text)
        return folder

    return write


@pytest.mark.slow
def test_a_found_file_sends_no_secret_anywhere(cloned, converted_lm, verihop, world, listener, monkeypatch):
    base, seen = listener
    folder = cloned(f'lm = "m"\napi_base = "{base}"\napi_key_env = "AWS_SECRET_ACCESS_KEY"\nretries = 0\n')
    monkeypatch.chdir(folder / "part")

    def fail(self: EmbeddedEngine, request: object) -> None:
        raise UserError("The embedded LM is not what is tested.")

    monkeypatch.setattr(EmbeddedEngine, "complete", fail)
    questions, index = world / "questions.jsonl", world / "index"
    run = ("eval", questions, "--program", "rag", "--index", index, "--limit", 1, "--out", "run")
    for words in (("ask", "--program", "cot", "Who?"), ("doctor",), run):
        _, _, err = verihop(*words)
        assert "verihop config --trust" in err, words
    assert seen == []


@pytest.mark.parametrize("words", [("--lm", "openai/gpt-4o-mini"), ("--lm", "hosted_vllm/m")])
def test_a_found_address_redirects_no_lm_that_is_typed(cloned, verihop, listener, monkeypatch, words):
    base, seen = listener
    cloned(f'api_base = "{base}"\napi_key_env = "AWS_SECRET_ACCESS_KEY"\nretries = 0\n')
    out = verihop("config", *words, "--json")[1]
    assert base not in out.replace('"ignored": {"value": "' + base, "")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "http_proxy"):  # what would go out, ends there
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    verihop("ask", "--program", "cot", *words, "--retries", 0, "--retry-timeout", 0, "--timeout", 5, "Who?")
    assert seen == []


def test_a_found_cache_answers_nothing(cloned, verihop, monkeypatch):
    """Replies that came with a repository are not read, unless its settings file is approved: then this is said."""
    folder = cloned('cache_dir = "cache"\n')
    monkeypatch.delenv("VERIHOP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "mine"))
    asked = ("ask", "--program", "cot", "--lm", "simulated", "--json", "Who keeps the gate?")
    _, _, err = verihop(*asked)
    assert "cache_dir" in err
    assert not (folder / "cache").exists()
    assert verihop("config", "--trust")[0] == 0
    _, _, err = verihop(*asked)
    assert f"cache_dir={folder / 'cache'}" in err
    assert (folder / "cache" / "replies.sqlite").exists()


def run_in(folder: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VERIHOP_CACHE_DIR": str(folder / ".cache"), **variables}
    code = "import sys; sys.path = [path for path in sys.path if path]; from experiments.cli.main import main; main()"
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_modules_of_the_working_folder_are_not_imported_by_processes_that_a_command_starts(tmp_path):
    """`python -c`, by which processes are started, looks for modules in the working folder first."""
    for name in ("multiprocessing", "json", "random", "selectors"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w')\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Ossa\n\nThe Ossa ends at Corrant.\n")
    done = run_in(tmp_path, "ingest", "docs", "--out", "passages.jsonl", "-q")
    assert not (tmp_path / "executed").exists(), done.stderr
    assert (done.returncode, (tmp_path / "passages.jsonl").exists()) == (0, True), done.stderr


@pytest.mark.slow
def test_no_variables_are_read_from_a_file_of_the_environment():
    """LiteLLM would read `.env` of each folder above the installation, which is often in the project's own folder."""
    code = "import os, programs.lms.connect; print(os.environ['LITELLM_MODE'])"
    environment = {name: value for name, value in os.environ.items() if name != "LITELLM_MODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "PRODUCTION"
