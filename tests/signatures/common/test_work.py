"""A folder of work: what a kill leaves, and when a request is the same."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from signatures.common.errors import UserError
from signatures.common.work import AppendedFile, complete_lines, difference, locked_folder, new_folder


def test_the_first_field_that_differs_is_named_with_both_values() -> None:
    stored = {"seed": 1, "program": {"knobs": {"k": 3}}, "started": "then"}
    assert difference(stored, {**stored, "started": "now"}, ignored=["started"]) is None
    assert difference(stored, {**stored, "program": {"knobs": {"k": 4}}}) == ("program.knobs.k", "3", "4")
    assert difference(stored, {**stored, "new": "x" * 99}) == ("new", "None", f"'{'x' * 76}...")
    assert difference(stored, {"seed": 1, "started": "then"}) == ("program.knobs.k", "3", "None")


def test_of_several_differences_the_first_is_in_the_first_part_though_only_the_stored_request_has_it() -> None:
    stored = {"arguments": {"strict": True}, "rules": ["a", "b"]}
    assert difference(stored, {"arguments": {"seed": None}, "rules": ["a"]}) == ("arguments.strict", "True", "None")


def test_a_locked_folder_has_one_worker_and_is_removed_if_nothing_was_made(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with (
        locked_folder(folder, "lock", "busy"),
        pytest.raises(UserError, match="busy"),
        locked_folder(folder, "lock", "busy"),
    ):
        pass
    assert not folder.exists()
    folder.mkdir()
    (folder / "rows.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"), locked_folder(folder, "lock", "busy"):
        pass


def test_a_new_folder_is_complete_or_absent(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "made", ".making-") as made:
        made.mkdir()
        raise KeyboardInterrupt
    assert not any(tmp_path.iterdir())
    with new_folder(tmp_path / "made", ".making-") as made:
        made.mkdir()
        (made / "a").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "a"]


def test_a_record_cut_by_a_kill_is_removed_and_a_failed_one_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b"')
    with AppendedFile(path) as log:
        place = log.append({"c": "\ud800"})
        assert path.read_bytes()[slice(*place)] == b'{"c": "?"}\n'
        with monkeypatch.context() as patch:
            real = log._file
            patch.setattr(log, "_file", os.fdopen(os.dup(real.fileno()), "rb", buffering=0))  # cannot be written
            with pytest.raises(UserError, match="cannot be written"):
                log.append({"d": 1})
        log.append({"e": 1})
    assert [line for _, line in complete_lines(path)] == [b'{"a": 1}', b'{"c": "?"}', b'{"e": 1}']


@pytest.mark.parametrize(("code", "cure"), [(errno.EFBIG, "raise the limit"), (errno.ENOSPC, "free some space")])
def test_where_only_part_of_a_record_has_room_the_system_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, cure: str
) -> None:
    class Short:
        def __init__(self, file: Any) -> None:
            self.fileno, self._write = file.fileno, file.write

        def write(self, data: bytes) -> Any:
            if len(data) < 4:
                raise OSError(code, os.strerror(code))
            return self._write(data[: len(data) // 2])

    with AppendedFile(tmp_path / "log.jsonl") as log:
        log.append({"a": 1})
        with monkeypatch.context() as patch:
            patch.setattr(log, "_file", Short(log._file))
            with pytest.raises(UserError, match=rf"\({os.strerror(code)}\).*; {cure}"):
                log.append({"b": 2})
        log.append({"c": 3})
    assert [line for _, line in complete_lines(tmp_path / "log.jsonl")] == [b'{"a": 1}', b'{"c": 3}']
