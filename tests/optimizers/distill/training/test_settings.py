"""Settings and data that cannot be trained with are one line; defaults depend on the method."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimizers.distill.examples import read_examples
from optimizers.distill.training.settings import make_settings
from signatures.common.errors import UserError


@pytest.mark.parametrize(("method", "rate"), [("lora", 1e-3), ("full", 2e-5)])
def test_the_learning_rate_suits_the_method(method: str, rate: float) -> None:
    assert make_settings(method=method).learning_rate == rate
    assert make_settings(method=method, learning_rate=None).learning_rate == rate
    assert make_settings(method=method, learning_rate=0.5).learning_rate == 0.5
    assert make_settings(method=method).as_dict()["learning_rate"] == rate


@pytest.mark.parametrize("name", ["base", "resume_adapter"])
def test_a_tilde_is_the_home_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "x").mkdir()
    for path in ("x", "missing"):
        assert getattr(make_settings(**{name: f"~/{path}"}), name) == str(tmp_path / path)
    assert make_settings(base="gguf:~/x.gguf").base == f"gguf:{tmp_path / 'x.gguf'}"
    assert make_settings(base="some/name~1").base == "some/name~1"
    with pytest.raises(UserError, match="is not a home folder"):
        make_settings(**{name: "~nobody-of-this-name/x"})


@pytest.mark.parametrize(
    "values",
    [
        {"weights": {"reading": float("nan")}},
        {"weights": {"reading": float("inf")}},
        {"learning_rate": float("inf")},
        {"epochs": float("inf")},
        {"epochs": 1e300},
        {"method": "magic"},
    ],
)
def test_a_setting_that_is_no_number_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=rf"\A.*Training setting '{next(iter(values))}.*\Z"):
        make_settings(**values)


def test_examples_that_are_not_utf_8_are_an_error_of_their_line(folder: Path) -> None:
    path = folder / "examples.jsonl"
    path.write_bytes(path.read_bytes() + b'\xff\xfe{"messages"}\n')
    with pytest.raises(UserError, match=r"\A.*examples.jsonl, line 25: not a training example.*\Z"):
        read_examples(path)


def test_marks_at_the_beginning_of_a_file_are_not_read(folder: Path) -> None:
    path = folder / "examples.jsonl"
    before = read_examples(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_examples(path) == before


USER, ASSISTANT = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"messages": []}, "the last of the messages must be the user's"),
        ({"messages": [USER, ASSISTANT]}, "the last of the messages must be the user's"),
        ({"messages": [{"role": "user", "content": " "}]}, "the last message and the completion must not be empty"),
        ({"completion": "  "}, "the last message and the completion must not be empty"),
        ({"skill": 3}, "'skill': input should be a valid string"),
        ({"messages": [USER, {"role": "nobody", "content": ""}]}, "'messages.1.role': input should be"),
    ],
)
def test_what_is_no_example_is_said_in_one_line(changes: dict[str, Any], said: str, folder: Path) -> None:
    path = folder / "examples.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**line, **changes}) + "\n")
    with pytest.raises(UserError, match=r"line 1: not a training example \(") as raised:
        read_examples(path)
    assert said in str(raised.value)
    assert "http" not in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
