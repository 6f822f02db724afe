"""The settings file: where it is found, and what it may not contain."""

from pathlib import Path

import pytest

from experiments.cli.shared.settings.known import (
    HARMLESS,
    approve,
    approved_digest,
    named_file,
    names,
    read_file,
    read_files,
)
from signatures.common.errors import UserError


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return the working folder, two levels below the home folder."""
    monkeypatch.delenv("VERIHOP_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "account"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    here = tmp_path / "home" / "project" / "part"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


def write(folder: Path, text: str = "threads = 4\n") -> Path:
    path = folder / "verihop.toml"
    path.write_text(text)
    return path


def find_file() -> Path | None:
    files = read_files()
    assert len(files) <= 1
    return files[0].path if files else None


def read(path: Path, **options) -> dict:
    return dict(read_file(path, trusted=True, **options).values)


def test_the_nearest_file_of_the_working_folder_and_its_parents_is_found(folder):
    assert find_file() is None
    above = write(folder.parent)
    assert find_file() == above
    write(folder)
    assert find_file() == Path("verihop.toml")


def test_no_file_is_looked_for_above_a_repository_or_the_home_folder(folder):
    write(folder.parents[2])  # above home
    assert find_file() is None
    write(folder.parents[1])
    assert find_file() == folder.parents[1] / "verihop.toml"
    (folder.parent / ".git").mkdir()
    assert find_file() is None


def test_a_repository_may_have_a_file_at_its_root(folder):
    (folder.parent / ".git").mkdir()
    assert write(folder.parent) == find_file()


def test_a_user_without_a_home_and_a_folder_that_is_gone(folder, monkeypatch):
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    (folder / ".git").mkdir()
    assert find_file() is None
    (folder / ".git").rmdir()
    folder.rmdir()
    assert find_file() is None


def test_a_folder_that_all_may_write_gives_no_settings_to_those_below(folder):
    write(folder.parent)
    folder.parent.chmod(0o777)
    assert find_file() is None


def test_the_users_own_file_is_weaker_than_the_nearest_one_and_trusted(folder, tmp_path):
    account = tmp_path / "account" / "verihop"
    account.mkdir(parents=True)
    own = write(account, 'lm = "simulated"\nthreads = 2\n')
    assert [(file.path, file.found, dict(file.values)) for file in read_files()] == [
        (own, False, {"lm": "simulated", "threads": 2})
    ]
    write(folder)
    assert [(file.path, file.found) for file in read_files()] == [(Path("verihop.toml"), True), (own, False)]


def test_a_file_in_the_configuration_folder_is_read_once_where_that_is_the_working_folder(
    folder, tmp_path, monkeypatch
):
    account = tmp_path / "account" / "verihop"
    account.mkdir(parents=True)
    write(account, 'lm = "simulated"\n')
    monkeypatch.chdir(account)
    assert [file.found for file in read_files()] == [False]


def test_an_account_without_a_home_folder_has_no_file_and_no_approvals(folder, monkeypatch):
    import platformdirs

    def nowhere(*_, **__) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(platformdirs, "user_config_path", nowhere)
    path = write(folder, 'lm = "simulated"\nthreads = 3\n')
    assert [dict(file.values) for file in read_files()] == [{"threads": 3}]
    with pytest.raises(UserError, match="HOME"):
        approve(path, "0")


def test_the_command_line_names_the_file(folder, tmp_path, monkeypatch):
    write(folder)
    other = tmp_path / "team.toml"
    other.write_text('lm = "simulated"\n')
    monkeypatch.setenv("VERIHOP_CONFIG", "none")
    token = named_file.set(other)
    try:
        assert [(file.path, dict(file.values)) for file in read_files()] == [(other, {"lm": "simulated"})]
        named_file.set(tmp_path / "gone.toml")
        with pytest.raises(UserError, match=r"--config names .*gone.toml"):
            read_files()
    finally:
        named_file.reset(token)


SERVER = 'lm = "big"\napi_base = "http://127.0.0.1:9/v1"\napi_key_env = "AWS_SECRET_ACCESS_KEY"\nmax_tokens = 9\n'


def test_a_file_that_is_merely_found_decides_only_what_is_harmless(folder):
    path = write(folder, f'{SERVER}threads = 3\ncache_dir = "kept"\ncache_bytes = 1_000_000\n')
    found = read_file(path)
    assert found.values == {"threads": 3}
    assert set(found.ignored) == {"lm", "api_base", "api_key_env", "max_tokens", "cache_dir", "cache_bytes"}
    assert HARMLESS.isdisjoint({"lm", "api_base", "api_key_env", "cache_dir", "cache_bytes", "a_new_one"})


def test_a_found_file_decides_limits_of_an_lm_that_it_does_not_name(folder):
    assert read_file(write(folder, "max_tokens = 9\n")).values == {"max_tokens": 9}


def test_an_approval_is_of_path_and_content(folder, tmp_path):
    path = write(folder, SERVER)
    approve(path, read_file(path).digest)
    approved = read_file(Path("verihop.toml"))  # however it is written
    assert set(approved.values) == {"lm", "api_base", "api_key_env", "max_tokens"}
    assert approved.ignored == {}
    copy = write(folder.parent, SERVER)
    assert "lm" in read_file(copy).ignored
    write(folder, SERVER.replace("127.0.0.1", "127.0.0.2"))
    changed = read_file(path)
    assert changed.values == {}
    assert "changed" in changed.ignored["api_base"][1]
    write(folder, SERVER)
    assert read_file(path).ignored == {}
    approve(path, None)
    assert approved_digest(path) is None
    assert "found" in read_file(path).ignored["lm"][1]


def test_a_link_to_an_approved_file_is_that_file(folder, tmp_path):
    path = write(folder, SERVER)
    approve(path, read_file(path).digest)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    assert read_file(link).ignored == {}


def test_a_link_takes_nothing_that_lies_beside_it(folder, tmp_path):
    """Else a cloned repository that links to a file of its reader would supply weights and cached replies."""
    mine, clone = tmp_path / "mine", tmp_path / "home" / "project" / "part"
    for place in (mine, clone):
        (place / "adapter").mkdir(parents=True)
    path = write(mine, 'lm = "embedded:adapter"\ncache_dir = "kept"\n')
    approve(path, read_file(path).digest)
    (clone / "verihop.toml").symlink_to(path)
    assert dict(read_files()[0].values) == {"lm": f"embedded:{mine / 'adapter'}", "cache_dir": str(mine / "kept")}


def test_until_it_is_approved_a_found_file_changes_nothing_that_the_users_own_states(folder, tmp_path):
    account = tmp_path / "account" / "verihop"
    account.mkdir(parents=True)
    own = write(account, 'budget = "usd=2"\nretries = 1\n')
    path = write(folder, 'budget = "usd=1000000"\nretries = 1000\nthreads = 4\n')
    found = read_files()[0]
    assert (dict(found.values), set(found.ignored)) == ({"threads": 4}, {"budget", "retries"})
    assert str(own) in found.ignored["budget"][1]
    approve(path, found.digest)
    approved = read_files()[0]
    assert (set(approved.values), approved.ignored) == ({"budget", "retries", "threads"}, {})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"/a": 1}', b"null"])
def test_damaged_approvals_approve_nothing_and_are_replaced(folder, tmp_path, content):
    path = write(folder, SERVER)
    account = tmp_path / "account" / "verihop"
    account.mkdir(parents=True)
    (account / "approved.json").write_bytes(content)
    assert read_file(path).values == {}
    approve(path, read_file(path).digest)
    assert read_file(path).ignored == {}


@pytest.mark.parametrize("trusted", [True, False])
def test_an_address_and_a_key_need_an_lm_in_the_same_file(folder, trusted):
    path = write(folder, "\n".join(SERVER.splitlines()[1:]))
    found = read_file(path, trusted=trusted)
    assert found.values == {"max_tokens": 9}
    assert set(found.ignored) == {"api_base", "api_key_env"}


def test_a_path_of_a_file_that_is_not_approved_is_not_looked_at(folder, monkeypatch):
    path = write(folder, 'lm = "gguf:/net/host/share"\ncache_dir = "~nobody-here/x"\n')
    monkeypatch.setattr(Path, "exists", lambda self: pytest.fail(f"looked at {self}"))
    assert read_file(path).values == {}


def test_a_variable_names_the_file_or_none(folder, monkeypatch, tmp_path):
    write(folder)
    monkeypatch.setenv("VERIHOP_CONFIG", "none")
    assert find_file() is None
    other = tmp_path / "other.toml"
    monkeypatch.setenv("VERIHOP_CONFIG", str(other))
    with pytest.raises(UserError, match=r"VERIHOP_CONFIG names .*other.toml, which is not a file"):
        find_file()
    other.write_text("")
    assert find_file() == other
    for missing in ("~nouser/verihop.toml", "x" * 5000):
        monkeypatch.setenv("VERIHOP_CONFIG", missing)
        with pytest.raises(UserError, match="which is not a file"):
            find_file()


def test_values_are_those_of_options_with_their_lines(folder):
    text = '# mine\nlm = "simulated"\nbudget = "calls=500 usd=0.2"\n\ntimeout = 30\ncache = false\ncache_bytes = 5e6\n'
    found = read_file(write(folder, text), trusted=True)
    assert found.values == {
        "lm": "simulated", "budget": ["calls=500", "usd=0.2"], "timeout": 30.0, "cache": False, "cache_bytes": 5e6,
    }  # fmt: skip
    assert isinstance(found.values["timeout"], float)
    assert found.place("timeout").endswith("verihop.toml:5")
    marked = write(folder)
    marked.write_text("threads = 4\n", encoding="utf-8-sig")
    assert read(marked) == {"threads": 4}
    assert read(write(folder, 'budget = ["calls=1"]\n')) == {"budget": ["calls=1"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thread = 4", ":1: thread is not a setting: did you mean threads?"),
        ("\nmax-tokens = 4", ":2: max-tokens is not a setting: did you mean max_tokens?"),
        ("api-key-env = 'A'", "did you mean api_key_env?"),
        ("max_token = 4", "did you mean max_tokens?"),
        ("colour = 1", "colour is not a setting: choose from: lm, api_base"),
        ("token = 'a'", ":1: token is not a setting of a file: export it as the variable VERIHOP_TOKEN"),
        ("log = 'json'", "log is not a setting of a file: export it as the variable VERIHOP_LOG"),
        ("[lm]\nid = 'a'", ":1: lm takes text in quotes"),
        ("[calling]\nretries = 1", ":1: settings must be outside tables: omit the line [calling]"),
        ("threads = '4'", "threads takes a whole number"),
        ("threads = true", "threads takes a whole number"),
        ("threads = 4.5", "threads takes a whole number"),
        (f"lm = 'a'\n#{'x' * 1_000_000}", "has more than 1,000,000 bytes"),
        ("threads = 0", "threads cannot be 0: input should be greater than or equal to 1"),
        ("timeout = '1'", "timeout takes a number"),
        ("api_key_env = ' '", "api_key_env is empty: omit the line"),
        ("lm = 5", "lm takes text in quotes"),
        ("cache = 'no'", "cache takes true or false"),
        ("cache_dir = 1", "cache_dir takes text in quotes"),
        ("cache_bytes = true", "cache_bytes takes a number"),
        ("cache_bytes = 10", "cache_bytes must be at least 1,000,000 and at most 1e+18, got 10"),
        ("cache_bytes = nan", "cache_bytes must be at least 1,000,000 and at most 1e+18, got nan"),
        ("cache_bytes = inf", ":1: cache_bytes must be at least 1,000,000 and at most 1e+18, got inf"),
        ("cache_dir = ''", ":1: cache_dir is empty: omit the line"),
        ('cache_dir = "x\\u0000y"', ":1: cache_dir contains a null character"),
        ("cache_dir = '~nouser/x'", ":1: cache_dir: ~nouser of ~nouser/x is not a home folder"),
        ("lm = 'gguf:~nouser/x'", ":1: lm: ~nouser of ~nouser/x is not a home folder"),
        (f"lm = 'gguf:{'x' * 5000}'", ":1: lm cannot be a path: File name too long"),
        (f"threads = {'9' * 5000}", "has a number or list that is too large"),
        (f"threads = {'[' * 5000}", "has a number or list that is too large"),
        (f"timeout = 0x{'f' * 4000}", ":1: timeout cannot be more than 1e+18"),
        ("temperature = inf", ":1: temperature cannot be inf: input should be less than or equal to 2"),
        ("temperature = nan", ":1: temperature cannot be nan"),
        (f"reasoning = '{'x' * 5000}'", ":1: Unknown reasoning 'xxx"),
        ("api_base = 'localhost:8000'", ":1: api-base must be a URL such as http://localhost:8000/v1"),
        ("budget = 500", 'budget takes text, as in budget = "calls=500 usd=0.2"'),
        ("budget = 'calls=many'", "budget takes calls=NUMBER"),
        ("reasoning = 'hihg'", "Unknown reasoning 'hihg'. Choose from: auto, high"),
        ("server = 'vlm'", "Unknown server 'vlm'"),
        ("model_type = 'image'", "Unknown model_type 'image'"),
        ("lm = embedded", "is not valid TOML"),
    ],
)
def test_a_mistake_is_one_line_with_file_key_and_cure(folder, text, message):
    with pytest.raises(UserError) as error:
        read_file(write(folder, text), trusted=True)
    assert message in str(error.value)
    assert "verihop.toml" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


KEY = "sk-proj-4f9a8b7c6d5e4f3a2b1c"


@pytest.mark.parametrize(
    "text",
    [
        f"api_key = '{KEY}'",
        f"openai_api_key = '{KEY}'",
        f"token = '{KEY}'",
        f"api_key_env = '{KEY}'",
        "api_key_env = 'hf_abcDEF123456789ghi'",
        "api_key_env = 'a1b2c3d4e5f6a7b8c9d0'",
        "api_key_env = 'two words'",
        f"lm = '{KEY}'",
        f"threads = 4  # not {KEY}",
        "api_base = 'https://ann:swordfish@lm.example/v1'",
        "api_base = 'https://swordfish@lm.example/v1'",
        "[secrets]\nopenai = 'swordfish'",
    ],
)
def test_a_key_in_the_file_is_refused_with_the_cure_and_not_shown(folder, text):
    with pytest.raises(UserError, match="export it as a variable") as error:
        read_file(write(folder, text))
    for secret in (KEY, "swordfish", "hf_abc", "a1b2", "two words"):
        assert secret not in str(error.value)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "my_key", "KEY_2026_FOR_TEAM_7", "HF_TOKEN", "key_of_our_team_7"])
def test_the_name_of_a_variable_is_no_key(folder, name):
    assert read(write(folder, f"lm = 'm'\napi_key_env = '{name}'")) == {"lm": "m", "api_key_env": name}


def test_a_comment_may_speak_of_keys(folder):
    text = "# hf_hub_download_is_not_called, the key is in OPENAI_API_KEY (it begins with sk-)\nthreads = 4\n"
    assert read(write(folder, text)) == {"threads": 4}


def test_paths_are_relative_to_the_file(folder):
    (folder.parent / "adapter").mkdir()
    found = read(write(folder.parent, "lm = 'embedded:adapter'\ncache_dir = 'kept'\n"))
    assert found == {"lm": f"embedded:{folder.parent / 'adapter'}", "cache_dir": str(folder.parent / "kept")}
    (folder / "adapter").mkdir()  # of whoever wrote the working folder
    assert read(folder.parent / "verihop.toml") == found
    for lm in ("embedded:base", "embedded", "openai/adapter", "simulated:3"):
        assert read(write(folder.parent, f"lm = '{lm}'")) == {"lm": lm}


def test_every_setting_is_known():
    assert names() == [
        "lm", "api_base", "api_key_env", "model_type", "temperature", "max_tokens", "context_size", "reasoning",
        "thinking_tokens", "server", "retries", "retry_timeout", "timeout", "cache", "budget", "threads", "cache_dir",
        "cache_bytes",
    ]  # fmt: skip
