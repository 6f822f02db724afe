"""Settings hold in commands: of the file, of variables, and in the lines printed as "Next:"."""

import json
import re
import shlex
from pathlib import Path

import pytest

from experiments.cli.shared.settings.known import PREFIX, VARIABLES, approve, names
from signatures.common.files import cache_dir, sha256_file

ROOT = Path(__file__).parents[4]
PACKAGES = ("signatures", "corpora", "programs", "optimizers", "experiments")


@pytest.fixture
def project(verihop, tmp_path, monkeypatch, own_cache):
    """Return a function that writes an approved settings file into the working folder, `my project`."""
    folder = tmp_path / "my project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Path, "home", lambda: folder)
    monkeypatch.delenv("VERIHOP_CONFIG")

    def write(text: str, *, approved: bool = True) -> None:
        Path("verihop.toml").write_text(text)
        if approved:
            approve(Path("verihop.toml"), sha256_file("verihop.toml"))

    return write


@pytest.fixture
def lm_of(verihop):
    """Return a function that asks a question with these options and returns the id and settings of the LM."""

    def run(*words: object, index: Path, out: str) -> dict:
        asked = ("eval", index.parent / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", index, "-q")
        code, _, err = verihop(*asked, "--out", out, *words)
        assert code == 0, err
        return json.loads((Path(out) / "run.json").read_text())["lm"]

    return run


def test_typed_options_are_stronger_than_variables_and_these_than_the_file(project, lm_of, world, monkeypatch):
    index = world / "index"
    project('lm = "simulated:1"\nmax_tokens = 91\nthreads = 2\n')
    found = lm_of(index=index, out="a")
    assert (found["id"], found["settings"]["max_tokens"]) == ("simulated:1", 91)
    assert json.loads(Path("a/run.json").read_text())["threads"] == 2
    monkeypatch.setenv("VERIHOP_MAX_TOKENS", "92")
    assert lm_of(index=index, out="b")["settings"]["max_tokens"] == 92
    assert lm_of("--max-tokens", 93, index=index, out="c")["settings"]["max_tokens"] == 93
    monkeypatch.setenv("VERIHOP_LM", "simulated:2")
    assert lm_of(index=index, out="d")["id"] == "simulated:2"
    found = lm_of("--lm", "simulated:3", index=index, out="e")
    assert (found["id"], found["settings"].get("max_tokens")) == ("simulated:3", 256)  # 92 is of VERIHOP_LM


def test_a_command_says_which_settings_it_uses(project, verihop, monkeypatch):
    project('lm = "simulated"\nbudget = "calls=5 usd=1"\nretries = 3\ntemperature = 0.5\n')
    monkeypatch.setenv("VERIHOP_TEMPERATURE", "0.7")
    _, _, err = verihop("ask", "--program", "cot", "--json", "Who?")
    settings = 'Settings: temperature=0.7 (VERIHOP_TEMPERATURE); lm=simulated, budget="calls=5 usd=1" (verihop.toml)'
    assert sorted(err.splitlines()[0].removeprefix("Settings: ").split("; ")) == sorted(
        settings.removeprefix("Settings: ").split("; ")
    )
    assert "Settings" not in verihop("programs", "cot")[2]


def test_a_budget_of_the_file_ends_a_command(project, verihop, world):
    project('lm = "simulated"\nbudget = "calls=3"\nthreads = 1\n')
    asked = ("eval", world / "questions.jsonl", "--program", "cot", "--limit", 5, "-q", "--out")
    assert verihop(*asked, "a")[0] == 3
    assert verihop(*asked, "b", "--budget", "calls=50")[0] == 0
    assert verihop(*asked, "c", "--budget", "")[0] == 0  # none


def test_a_cache_that_is_turned_off_can_be_turned_on(project, verihop):
    project('lm = "simulated"\ncache = false\n')

    def cached(*words: str) -> list[int]:
        asked = ("ask", "--program", "cot", "--json", *words, "Who keeps the gate?")
        return [json.loads(verihop(*asked)[1])["cost"]["cached_calls"] for _ in range(2)]

    assert cached() == [0, 0]
    assert cached("--cache") == [0, 1]


def test_the_cache_is_in_the_folder_that_the_file_names(project, verihop, monkeypatch, tmp_path):
    project('lm = "simulated"\ncache_dir = "kept"\n')
    outside = cache_dir()
    verihop("ask", "--program", "cot", "Who?")
    assert (outside / "replies.sqlite").exists()  # the variable is stronger
    monkeypatch.delenv("VERIHOP_CACHE_DIR")
    verihop("ask", "--program", "cot", "Who?")
    assert Path("kept/replies.sqlite").exists()
    assert cache_dir() != Path("kept").resolve()  # after the command


def test_help_is_the_same_whatever_the_settings_are(project, verihop):
    plain = verihop("ask", "--help")
    project("threads = 'broken'")
    assert verihop("ask", "--help") == plain
    assert "VERIHOP_LM" in plain[1]
    assert verihop("ask", "Who?")[0] == 2


def test_a_broken_file_stops_only_commands_with_settings(project, verihop, world):
    project("threads = 'broken'")
    for words in (["programs"], ["metrics"], ["optimizers"], ["data", "list"]):
        assert verihop(*words)[0] == 0
    for words in (["compare", "a", "b"], ["artifact", "show", "a"], ["trace", "a"]):
        code, _, err = verihop(*words)
        assert (code, "verihop.toml" in err) == (2, False)
    # What the last two take of the settings is the folder of the cache.
    for words in (["ask", "Who?"], ["config"], ["index", "a"], ["search", "Who?", "--index", "a"]):
        code, _, err = verihop(*words)
        assert (code, err) == (2, "verihop: verihop.toml:1: threads takes a whole number.\n")


def test_a_command_without_options_that_are_settings_uses_the_cache_of_the_file(project, monkeypatch):
    from experiments.cli.shared.app import App

    project('cache_dir = "kept"\n')
    monkeypatch.delenv("VERIHOP_CACHE_DIR")
    app, used = App(), []
    app.command("a", uses_cache=True)(lambda: used.append(cache_dir()))
    app.command("b")(lambda: used.append(cache_dir()))
    for word in ("a", "b"):
        app.tree([word], standalone_mode=False)
    assert [path == Path("kept").resolve() for path in used] == [True, False]


def test_a_resumed_run_does_not_take_another_lm_of_the_settings(project, lm_of, verihop, world):
    project('lm = "simulated:1"\n')
    lm_of(index=world / "index", out="run")
    project('lm = "simulated:2"\n')
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index")
    code, _, err = verihop(*asked, "--out", "run", "--resume")
    assert code == 2
    assert "Settings: lm=simulated:2 (verihop.toml)" in err
    assert "lm.id was 'simulated:1' and is now 'simulated:2'" in err
    assert verihop(*asked, "--out", "run", "--resume", "--lm", "simulated:1")[0] == 0


@pytest.mark.filterwarnings("default::signatures.common.errors.UserNotice")
def test_the_lm_of_settings_is_used_for_an_artifact_with_a_note(project, verihop, world):
    asked = ("compile", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index")
    assert verihop(*asked, "--lm", "simulated:1", "--out", "made", "-q")[0] == 0
    project('lm = "simulated:2"\n')
    _, _, err = verihop("ask", "--artifact", "made", "Who?")
    assert "was compiled for LM simulated:1 " in err
    assert "this one is simulated:2" in err
    assert "Settings: lm=simulated:2 (verihop.toml)" in err


@pytest.mark.filterwarnings("default::signatures.common.errors.UserNotice")
def test_an_address_of_settings_is_not_that_of_an_lm_in_this_process(project, verihop, world, monkeypatch):
    asked = ("compile", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index")
    assert verihop(*asked, "--lm", "simulated", "--out", "made", "-q")[0] == 0
    monkeypatch.setenv("VERIHOP_API_BASE", "http://127.0.0.1:9/sk-abcdefghijklmnopq123/v1")
    for words in (["ask", "--artifact", "made", "Who?"], ["artifact", "export", "made", "--question", "Who?"]):
        code, _, err = verihop(*words)
        assert (code, "Settings" in err) == (0, False), err
    code, _, err = verihop("ask", "--artifact", "made", "--api-base", "http://127.0.0.1:9/v1", "Who?")
    assert code == 2
    assert "compiled with LM 'simulated', which runs in this process: name the model on the server (lm)" in err
    code, _, err = verihop("ask", "--program", "cot", "Who?")
    assert code == 2
    assert "No model is named for the server http://127.0.0.1:9/***/v1: name it (lm)" in err
    assert "Note: no model is named for the server" in verihop("config")[2]


def next_words(err: str) -> list[str]:
    (line,) = (line for line in err.splitlines() if line.startswith("Next: "))
    return shlex.split(line.removeprefix("Next: verihop "))


def test_a_next_line_repeats_no_setting_and_loses_no_option(project, verihop, world, tmp_path):
    project('lm = "simulated"\nthreads = 2\nmax_tokens = 91\n')
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index", "-q")

    def words(out: str, *options: object) -> list[str]:
        code, _, err = verihop(*asked, "--out", tmp_path / out / "run", *options)
        assert code == 0, err
        following = next_words(err)
        assert verihop(*following)[0] == 0  # runs as printed
        return following

    plain = words("a")
    assert not {"--lm", "--threads", "--max-tokens"}.intersection(plain)
    typed = words("b", "--threads", 8, "--lm", "simulated:1", "--max-tokens", 91)  # 8 is the default without settings
    # Another LM is typed, so that 91 of the file does not hold.
    assert " ".join(typed).count("--threads 8") == 1
    assert "--lm simulated:1 --max-tokens 91" in " ".join(typed)
    assert "--lm" not in words("c", "--lm", "simulated")


def test_options_that_settings_give_need_no_question(project, verihop, world):
    asked = ("compile", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index")
    assert verihop(*asked, "--lm", "simulated", "--out", "made", "-q")[0] == 0
    project('lm = "simulated"\nbudget = "calls=9"\n')
    assert verihop("artifact", "export", "made", "--out", "prompts")[0] == 0
    code, _, err = verihop("artifact", "export", "made", "--lm", "simulated:1")
    assert (code, "add --question" in err) == (2, True)
    assert verihop("artifact", "cascade", "made", "made", "-o", "both")[0] == 0


def test_settings_are_not_of_a_teacher(project, verihop, world):
    project('lm = "simulated"\napi_base = "http://127.0.0.1:9/v1"\n')
    asked = ("distill", "synthesize", f"world={world / 'questions.jsonl'}", "--program", "cot", "--out", "examples")
    code, _, err = verihop(*asked)
    assert (code, "Name the teacher" in err) == (2, True)
    assert "VERIHOP_API_BASE" not in verihop("distill", "synthesize", "--help")[1]
    _, _, err = verihop(*asked, "--limit", 2, "--teacher", "simulated", "-q")
    assert "No example was made: answer_is_right 2" in err  # it replied, and knows little


def variables_in(source: str) -> set[str]:
    """Return the variables that code names: written out, or as f"{PREFIX}NAME"."""
    named = rf"\b{PREFIX}([A-Z_]*[A-Z])|\{{PREFIX\}}([A-Z_]*[A-Z])"
    return {f"{PREFIX}{whole or rest}" for whole, rest in re.findall(named, source)}


def test_variables_are_found_however_they_are_written():
    assert variables_in('f"{PREFIX}A_B" "VERIHOP_C" f"{PREFIX}{name}" f"{PREFIX}D {PREFIX}E_"') == {
        f"VERIHOP_{name}" for name in ("A_B", "C", "D", "E")
    }  # fmt: skip


def test_every_variable_that_the_code_reads_is_listed_and_documented():
    sources = {path: path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    read = {name for source in sources.values() for name in variables_in(source)}
    # Names that are put together in another way would not be found.
    declared = [path.name for path, source in sources.items() if re.search(rf"{PREFIX}[\"'{{]", source)]
    assert declared == ["options.py"]
    together = {path.name for path, source in sources.items() if "{PREFIX}{" in source}
    assert together <= {"options.py", "known.py", "config.py"}
    listed = {each.name for each in VARIABLES} | {f"{PREFIX}{name.upper()}" for name in names()}
    assert read <= listed
    page = (ROOT / "experiments" / "cli" / "README.md").read_text()
    for name in names():
        assert f"| `{name}` |" in page
    for each in VARIABLES:
        assert f"`{each.name}`" in page
