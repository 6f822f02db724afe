"""Which of several places decides a setting."""

import pytest

from experiments.cli.shared.settings.known import (
    ActiveSettings,
    Settings,
    SettingsFile,
    deciding_places,
    settings_applied,
    to_type,
)

SERVER = {"lm": "big", "api_base": "http://a/v1", "api_key_env": "KEY_A", "max_tokens": 99, "threads": 4}


def held(*places: dict) -> dict:
    return {name: places[number][name] for name, number in deciding_places(places).items()}


def test_the_strongest_place_decides():
    assert held({"threads": 1}, {"threads": 2, "retries": 5}, {"retries": 6, "timeout": 7}) == {
        "threads": 1, "retries": 5, "timeout": 7,
    }  # fmt: skip


def test_what_belongs_to_another_lm_does_not_hold():
    assert held({"lm": "other"}, SERVER) == {"lm": "other", "threads": 4}
    assert held({"lm": "big"}, SERVER) == SERVER  # the same LM
    assert held({"lm": "other", "max_tokens": 5}, {"threads": 2}, SERVER) == {
        "lm": "other",
        "max_tokens": 5,
        "threads": 2,
    }


def test_a_key_is_not_sent_to_another_address():
    assert held({"api_base": "http://b/v1"}, SERVER) == {
        "lm": "big", "api_base": "http://b/v1", "max_tokens": 99, "threads": 4,
    }  # fmt: skip
    assert held({"api_base": "http://a/v1"}, SERVER) == SERVER


def test_an_lm_can_be_named_for_the_server_of_a_weaker_place():
    server = {"api_base": "http://a/v1", "api_key_env": "KEY_A"}
    assert held({"lm": "small"}, server) == {"lm": "small", **server}


def test_an_lm_in_this_process_takes_no_server():
    weaker = {"api_base": "http://a/v1", "api_key_env": "KEY_A", "reasoning": "low", "temperature": 0.5}
    for lm in ("embedded", "embedded:adapter", "simulated:1", "gguf:a.gguf"):
        assert held({"lm": lm}, weaker) == {"lm": lm, "temperature": 0.5}
    typed = {"lm": "embedded", "api_base": "http://b/v1"}  # a model of that name
    assert held(typed, {"reasoning": "low"}) == {**typed, "reasoning": "low"}


def test_the_lm_of_an_artifact_in_this_process_takes_no_server_of_settings():
    weaker = {"api_base": "http://a/v1", "api_key_env": "KEY_A", "threads": 2}
    assert deciding_places([{}, {}, weaker], "simulated:1") == {"threads": 2}
    assert deciding_places([{}, weaker, {}], "openai/m") == dict.fromkeys(weaker, 1)
    assert deciding_places([{}, {"lm": "m"}, weaker], "embedded") == {"lm": 1, **dict.fromkeys(weaker, 2)}
    typed = {"api_base": "http://b/v1"}  # the command asks which model that is to be
    assert deciding_places([typed, {}, weaker], "embedded") == {"api_base": 0, "threads": 2}


def test_a_place_that_is_made_void_does_not_hide_a_weaker_one():
    variables = {"lm": "other", "max_tokens": 7}
    assert held({"lm": "big"}, variables, SERVER) == SERVER


LM = ("lm", "api_base", "api_key_env", "max_tokens", "server")
NONE = dict.fromkeys(LM)


@pytest.mark.parametrize(
    ("used", "typed"),
    [
        ({"lm": "big", "api_base": "http://a/v1", "api_key_env": "KEY_A", "max_tokens": 99}, []),
        ({"lm": "other"}, ["lm"]),  # what belongs to the file's LM does not hold beside it
        ({"lm": "other", "api_base": "http://a/v1"}, ["lm", "api_base"]),
        ({"lm": "big", "api_base": "http://b/v1", "max_tokens": 99}, ["api_base"]),
        (
            {"lm": "big", "api_base": "http://b/v1", "api_key_env": "KEY_A", "max_tokens": 99},
            ["api_base", "api_key_env"],
        ),
        ({"lm": "big", "api_base": "http://a/v1", "api_key_env": "KEY_A", "max_tokens": 5}, ["max_tokens"]),
        ({"lm": "embedded", "max_tokens": 99}, ["lm", "max_tokens"]),
    ],
)
def test_what_must_be_typed_for_the_same_to_hold_again(used, typed):
    file = SettingsFile(values={name: value for name, value in SERVER.items() if name in LM})
    with settings_applied(ActiveSettings(Settings(files=[file]), {}, {})):
        assert to_type({**NONE, **used}) == typed
    again = {name: used[name] for name in typed}
    assert held(again, file.values) == used


def test_without_settings_the_defaults_are_not_typed():
    assert to_type({"threads": 8, "lm": None, "retries": 4}) == ["retries"]
