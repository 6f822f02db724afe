"""`verihop config`: what holds, and why."""

import json
import tomllib
from pathlib import Path

import pytest

from experiments.cli.shared.settings.known import names


@pytest.fixture
def here(verihop, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("CONFIG", "CHROMIUM", "POSTGRES"):  # the last two say what the tests require
        monkeypatch.delenv(f"VERIHOP_{name}", raising=False)
    return tmp_path


def test_every_setting_is_shown_with_where_it_comes_from(here, verihop, monkeypatch):
    (here / "verihop.toml").write_text('lm = "big"\napi_base = "http://a/v1"\nthreads = 2\ntimeout = 9\n')
    assert verihop("config", "--trust")[0] == 0
    monkeypatch.setenv("VERIHOP_THREADS", "3")
    code, out, err = verihop("config")
    assert (code, err.splitlines()) == (0, ["Next: verihop doctor"])
    assert out.startswith(f"File: {here / 'verihop.toml'}\n")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith("  ")}
    assert rows["lm"] == ["big", "verihop.toml:1"]
    assert rows["threads"] == ["3", "VERIHOP_THREADS"]
    assert rows["timeout"] == ["9.0", "verihop.toml:4"]
    assert rows["retries"] == ["3", "default"]
    assert set(names()) <= set(rows)
    _, out, _ = verihop("config", "--json", "--lm", "embedded", "--threads", 5)
    found = json.loads(out)
    assert found["file"] == str(here / "verihop.toml")
    assert set(found["settings"]) == set(names())
    assert found["settings"]["threads"]["from"] == "command line"
    base = found["settings"]["api_base"]
    assert (base["value"], base["from"], base["void"]) == (None, "default", "verihop.toml:2")


def test_the_shorter_patience_of_serve_and_mcp_is_shown(here, verihop):
    (line,) = [line for line in verihop("config")[1].splitlines() if line.startswith("  retry_timeout ")]
    assert line.split() == "retry_timeout 600.0 default; in serve and mcp 20.0".split()
    assert json.loads(verihop("config", "--json")[1])["settings"]["retry_timeout"]["serve_and_mcp"] == 20
    assert "in serve and mcp" not in verihop("config", "--retry-timeout", 5)[1]
    assert verihop("config", "--init")[0] == 0
    assert "Default of serve and mcp:\n# 20.0.\n# retry_timeout = 600.0\n" in (here / "verihop.toml").read_text()


def test_no_secret_is_shown(here, verihop, monkeypatch):
    monkeypatch.setenv("VERIHOP_API_BASE", "https://ann:swordfish@lm.example/v1")
    monkeypatch.setenv("VERIHOP_API_KEY_ENV", "OUR_KEY")
    monkeypatch.setenv("VERIHOP_TOKEN", "swordfish")
    _, out, err = verihop("config")
    assert "OUR_KEY (is not set)" in out
    assert "VERIHOP_TOKEN: set" in out
    assert "https://***@lm.example/v1" in out
    monkeypatch.setenv("OUR_KEY", "swordfish")
    _, shown, more = verihop("config", "--json")
    assert json.loads(shown)["settings"]["api_key_env"]["key_is_set"] is True
    assert "swordfish" not in out + err + shown + more
    monkeypatch.setenv("VERIHOP_API_KEY_ENV", "sk-proj-4f9a8b7c6d5e4f3a2b1c")
    code, _, err = verihop("config")
    assert (code, "looks like the key itself" in err, "4f9a" in err) == (2, True, False)


def test_a_file_to_begin_with_has_what_is_typed_and_all_else_as_comments(here, verihop):
    typed = ("--lm", "Qwen/Qwen3-8B", "--api-base", "http://localhost:8000/v1", "--budget", "calls=5", "usd=1")
    code, out, err = verihop("config", "--init", *typed, "--no-cache")
    assert (code, out.strip(), err.strip()) == (0, "Wrote verihop.toml", "Next: verihop config")
    text = (here / "verihop.toml").read_text()
    assert tomllib.loads(text) == {
        "lm": "Qwen/Qwen3-8B", "api_base": "http://localhost:8000/v1", "cache": False, "budget": "calls=5,usd=1",
    }  # fmt: skip
    code, _, err = verihop("config", "--init")
    assert (code, "exists already" in err) == (2, True)
    (here / "verihop.toml").unlink()
    assert verihop("config", "--init", "--timeout", "inf")[0] == 0
    assert tomllib.loads((here / "verihop.toml").read_text()) == {"timeout": float("inf")}
    (here / "verihop.toml").unlink()
    assert verihop("config", "--init")[0] == 0
    lines = (here / "verihop.toml").read_text().splitlines()
    assert tomllib.loads("\n".join(lines)) == {}
    # Each comment is a setting that may stand there.
    uncommented = "\n".join(line.removeprefix("# ") for line in lines if " = " in line and not line.endswith("."))
    (here / "verihop.toml").write_text(uncommented)
    assert set(tomllib.loads(uncommented)) == set(names())
    assert verihop("config")[0] == 0


def test_a_password_is_not_written(here, verihop):
    code, _, err = verihop("config", "--init", "--lm", "m", "--api-base", "https://ann:swordfish@lm.example/v1")
    assert (code, "password" in err, "swordfish" in err) == (2, True, False)
    code, _, err = verihop("config", "--init", "--api-key-env", "sk-proj-4f9a8b7c6d5e4f3a2b1c")
    assert (code, "looks like the key itself" in err, "4f9a" in err) == (2, True, False)
    assert not (here / "verihop.toml").exists()


KEY = "sk-abcdefghijklmnopq123"


@pytest.mark.parametrize("address", [f"http://127.0.0.1:9/{KEY}/v1", f"https://ann:swordfish@host/{KEY}"])
def test_a_key_in_the_path_of_an_address_is_not_shown(here, verihop, monkeypatch, address):
    monkeypatch.setenv("VERIHOP_API_BASE", address)
    monkeypatch.setenv("VERIHOP_LM", "m")
    said = [*verihop("config")[1:], *verihop("config", "--json")[1:]]
    said += verihop("ask", "--program", "nonsense", "Who?")[1:]  # its line "Settings:"
    monkeypatch.delenv("VERIHOP_API_BASE")
    said += verihop("config", "--api-base", address)[1:]
    assert "VERIHOP_API_BASE" in said[0]
    assert "/***" in said[0]
    assert "Settings: " in said[5]
    assert KEY not in "".join(said)
    assert "Next: verihop config --init --api-base http" in said[7]
    assert "/KEY" in said[7]


def test_a_query_of_an_address_is_refused_and_not_shown(here, verihop, monkeypatch):
    address = "http://127.0.0.1:9/v1?key=swordfish"
    for words in ([], ["--json"], ["--init"]):
        code, out, err = verihop("config", "--lm", "m", "--api-base", address, *words)
        assert (code, out, "without a query" in err, "swordfish" in err) == (2, "", True, False)
    monkeypatch.setenv("VERIHOP_API_BASE", address)
    code, out, err = verihop("config")
    assert (code, out, "VERIHOP_API_BASE: " in err, "swordfish" in err) == (2, "", True, False)


@pytest.mark.parametrize("words", [("--api-base", f"http://127.0.0.1:9/{KEY}/v1"), ("--lm", f"openai/{KEY}")])
def test_a_key_in_a_part_of_a_value_is_not_written(here, verihop, words):
    code, out, err = verihop("config", "--init", "--lm", "m", *words)
    assert (code, out, "no file may contain" in err, KEY in err) == (2, "", True, False)
    assert not (here / "verihop.toml").exists()


def test_a_word_that_no_command_takes_is_refused(here, verihop):
    code, out, err = verihop("config", "--reasoning", "much")
    assert (code, out) == (2, "")
    assert err.startswith("verihop: Unknown reasoning 'much'. Choose from: auto")


def test_without_a_file_the_next_line_writes_one(here, verihop):
    code, out, err = verihop("config", "--lm", "simulated")
    assert code == 0
    assert "File: none" in out
    assert err.strip() == "Next: verihop config --init --lm simulated"


def test_a_key_is_not_used_for_another_address(here, verihop):
    (here / "verihop.toml").write_text('lm = "m"\napi_base = "http://a/v1"\napi_key_env = "KEY_A"\nserver = "vllm"\n')
    assert verihop("config", "--trust")[0] == 0
    found = json.loads(verihop("config", "--json", "--api-base", "http://b/v1")[1])["settings"]
    assert (found["lm"]["value"], found["api_base"]["value"]) == ("m", "http://b/v1")
    assert (found["api_key_env"]["value"], found["api_key_env"]["void"]) == (None, "verihop.toml:3")
    assert found["server"]["value"] is None
    out = verihop("config", "--api-base", "http://b/v1")[1]
    assert "default; verihop.toml:3 is of another LM or server" in out


def test_a_misspelled_variable_is_named(here, verihop, monkeypatch):
    monkeypatch.setenv("VERIHOP_THREAD", "4")
    _, _, err = verihop("config")
    assert "Note: VERIHOP_THREAD is not a variable of verihop: did you mean VERIHOP_THREADS?" in err.splitlines()
    assert "VERIHOP_THREAD" in json.loads(verihop("config", "--json")[1])["unknown_variables"]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CACHE_BYTES", "abc", "VERIHOP_CACHE_BYTES must be a number of bytes"),
        ("CACHE_DIR", "~nouser/x", "~nouser of ~nouser/x is not a home folder"),
        ("DECOMPRESS_LIMIT", "much", "VERIHOP_DECOMPRESS_LIMIT='much' must be a number of bytes"),
        ("LOG", "xml", "Unknown log format 'xml'"),
    ],
)
def test_what_commands_would_refuse_is_not_shown_as_if_it_held(here, verihop, monkeypatch, variable, value, message):
    monkeypatch.setenv(f"VERIHOP_{variable}", value)
    code, out, err = verihop("config")
    assert (code, out, message in err) == (2, "", True)


def test_the_cache_of_the_file_is_not_taken_for_a_variable(here, verihop, monkeypatch):
    monkeypatch.delenv("VERIHOP_CACHE_DIR")
    (here / "verihop.toml").write_text("cache_dir = 'kept'\ncache_bytes = 5e6\n")
    assert verihop("config", "--trust")[0] == 0
    found = json.loads(verihop("config", "--json")[1])
    assert [found["settings"][name]["from"] for name in ("cache_dir", "cache_bytes")] == ["file", "file"]
    assert [found["variables"][f"VERIHOP_{name}"]["set"] for name in ("CACHE_DIR", "CACHE_BYTES")] == [False, False]
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(here / "kept"))  # the same as the file's
    found = json.loads(verihop("config", "--json")[1])
    assert found["settings"]["cache_dir"]["place"] == "VERIHOP_CACHE_DIR"
    assert found["variables"]["VERIHOP_CACHE_DIR"] == {
        "set": True, "value": str(here / "kept"), "meaning": found["variables"]["VERIHOP_CACHE_DIR"]["meaning"],
    }  # fmt: skip


def test_json_has_no_bare_infinity(here, verihop):
    def refused(constant: str) -> None:
        raise AssertionError(constant)

    out = verihop("config", "--json", "--timeout", "inf")[1]
    assert json.loads(out, parse_constant=refused)["settings"]["timeout"]["value"] == "inf"


EVIL = 'lm = "big"\napi_base = "http://127.0.0.1:9/v1"\napi_key_env = "OUR_KEY"\nthreads = 2\n'


def test_what_does_not_apply_is_shown_with_place_and_reason(here, verihop):
    (here / "verihop.toml").write_text(EVIL)
    code, out, err = verihop("config")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ")}
    assert "default; not http://127.0.0.1:9/v1 of verihop.toml:2" in rows["api_base"]
    assert "verihop config --trust" in err
    found = json.loads(verihop("config", "--json")[1])["settings"]
    assert (found["api_key_env"]["value"], found["threads"]["value"]) == (None, 2)
    assert found["api_key_env"]["ignored"]["place"] == "verihop.toml:3"
    assert "found" in found["api_key_env"]["ignored"]["reason"]


def test_a_file_is_approved_once_and_again_after_a_change(here, verihop):
    path = here / "verihop.toml"

    def address() -> str | None:
        return json.loads(verihop("config", "--json")[1])["settings"]["api_base"]["value"]

    path.write_text(EVIL)
    code, out, _ = verihop("config", "--trust")
    assert (code, "lm=big, api_base=http://127.0.0.1:9/v1, api_key_env=OUR_KEY" in out) == (0, True)
    assert address() == "http://127.0.0.1:9/v1"
    path.write_text(EVIL.replace(":9", ":10"))
    assert address() is None
    assert "changed" in verihop("config")[2]
    assert verihop("config", "--trust")[0] == 0
    assert address() == "http://127.0.0.1:10/v1"
    assert verihop("config", "--distrust")[0] == 0
    assert address() is None


def test_what_needs_no_approval_says_so(here, verihop):
    code, _, err = verihop("config", "--trust")
    assert (code, "needs approval" in err) == (2, True)
    (here / "verihop.toml").write_text("threads = 2\n")
    assert "it needs no approval" in verihop("config", "--trust")[1]


def test_a_file_that_config_wrote_is_approved(here, verihop):
    assert verihop("config", "--init", "--lm", "simulated")[0] == 0
    assert json.loads(verihop("config", "--json")[1])["settings"]["lm"]["value"] == "simulated"


def test_a_named_file_is_read_in_place_of_all_others(here, verihop, monkeypatch):
    (here / "verihop.toml").write_text("threads = 2\n")
    (here / "team.toml").write_text(EVIL.replace("threads = 2", "threads = 3"))
    code, out, err = verihop("--config", "team.toml", "config", "--json")
    found = json.loads(out)
    assert (code, found["file"], found["settings"]["threads"]["value"]) == (0, str(here / "team.toml"), 3)
    assert found["settings"]["api_base"]["value"] == "http://127.0.0.1:9/v1"
    assert "Next: verihop --config team.toml doctor" in verihop("--config", "team.toml", "config")[2]
    monkeypatch.setenv("VERIHOP_CONFIG", "team.toml")
    assert json.loads(verihop("config", "--json")[1])["settings"]["threads"]["value"] == 3
    code, _, err = verihop("config", "--config", "team.toml")
    assert (code, "before the command" in err) == (2, True)
    code, _, err = verihop("--config", "gone.toml", "ask", "Who?")
    assert (code, "gone.toml" in err) == (2, True)
