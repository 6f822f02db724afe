import errno

import pytest

from signatures.files import atomic_write, sha256_file, sha256_text


def test_a_finished_block_leaves_the_whole_file(tmp_path):
    with atomic_write(tmp_path / "deep" / "a.txt") as file:
        file.write("whole")
    assert (tmp_path / "deep" / "a.txt").read_text() == "whole"
    assert sha256_file(tmp_path / "deep" / "a.txt") == sha256_text("whole")


def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="No space"), atomic_write(path) as file:
        file.write("new")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]
