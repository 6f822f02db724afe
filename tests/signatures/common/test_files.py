import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from programs.artifacts.folder import replacing
from signatures.common import files
from signatures.common.errors import UserError
from signatures.common.files import (
    atomic_write,
    exclusive_lock,
    remove_temporaries,
    sha256_file,
    sha256_text,
    temporary_folder,
    writing,
)


def test_a_finished_block_leaves_the_complete_file(tmp_path):
    with atomic_write(tmp_path / "deep" / "a.txt") as file:
        file.write("whole")
    assert (tmp_path / "deep" / "a.txt").read_text() == "whole"
    assert sha256_file(tmp_path / "deep" / "a.txt") == sha256_text("whole")


def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="No space") as raised, atomic_write(path) as file:
        file.write("new")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(path)
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(("code", "cure"), [(errno.EACCES, "let this user write"), (errno.ENOSPC, "free some space")])
def test_a_failed_write_names_what_helps(tmp_path, code, cure):
    with pytest.raises(UserError, match=f"cannot be written.*; {cure}"), writing(tmp_path):
        raise OSError(code, os.strerror(code))


def test_the_umask_decides_who_reads_what_is_written(tmp_path):
    before = os.umask(0o027)
    files._umask.cache_clear()
    try:
        with atomic_write(tmp_path / "a.txt") as file:
            file.write("a")
        with replacing(tmp_path / "artifact", overwrite=False) as folder:
            (folder / "b").write_text("b")
    finally:
        os.umask(before)
        files._umask.cache_clear()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a.txt", "artifact")] == [0o640, 0o750]


def test_a_file_that_is_written_anew_keeps_its_mode(tmp_path):
    """Before, it had that of the umask, although its owner had narrowed it."""
    (path := tmp_path / "a.txt").touch(0o600)
    with atomic_write(path) as file:
        file.write("a")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_written_into_that_of_a_group_is_the_groups(tmp_path):
    """Before, what was written into an artifact later was of the writer's own group."""
    tmp_path.chmod(0o2775)
    with replacing(tmp_path / "artifact", overwrite=False):
        pass
    assert (tmp_path / "artifact").stat().st_mode & stat.S_ISGID


def test_a_device_or_pipe_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="is a device or a pipe"), atomic_write(pipe) as file:
        file.write("new")
    assert pipe.is_fifo()


def test_a_lock_keeps_others_out_and_leaves_no_file(tmp_path):
    lock = tmp_path / "new" / "lock"
    with exclusive_lock(lock, "busy"):
        with pytest.raises(UserError, match="busy"), exclusive_lock(lock, "busy"):
            pass
        assert lock.exists()
    assert not lock.exists()


def test_a_lock_file_left_by_a_killed_process_does_not_block(tmp_path):
    (tmp_path / "lock").touch()
    with exclusive_lock(tmp_path / "lock", "busy"):
        pass


def test_concurrent_holders_of_a_lock_get_it_one_at_a_time(tmp_path):
    """The file is deleted and recreated all the time; two must never hold it, one by its name and one by its inode."""
    from concurrent.futures import ThreadPoolExecutor

    inside, most = [], []

    def work(number):
        for _ in range(200):
            try:
                with exclusive_lock(tmp_path / "lock", "busy"):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)
            except UserError:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert max(most) == 1


WRITER = """
import time
from pathlib import Path
from verihop.signatures.common.files import atomic_write, temporary_folder

with atomic_write({path!r}) as file, temporary_folder({folder!r}, ".making-") as made:
    (made / "a").touch()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there anyway")
def test_temporaries_of_a_killed_process_are_removed_by_the_next_write_and_those_of_a_living_one_are_kept(tmp_path):
    path = tmp_path / "a[1].txt"
    (tmp_path / ".other.txt.abcdefgh.tmp").touch()  # of another file

    def write() -> set[str]:
        with atomic_write(path) as file, temporary_folder(tmp_path, ".making-"):
            file.write("whole")
        return {item.name for item in tmp_path.iterdir()} - {path.name, ".other.txt.abcdefgh.tmp"}

    command = [sys.executable, "-c", WRITER.format(path=str(path), folder=str(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as writer:
        assert writer.stdout.readline() == b"writing\n"
        assert len(write()) == 2
        remove_temporaries(tmp_path)
        assert len(write()) == 2
        writer.kill()
        writer.wait()
    assert write() == set()
    assert path.read_text() == "whole"


def test_threads_that_write_the_same_file_do_not_remove_what_the_others_write(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    def work(number):
        for _ in range(50):
            with atomic_write(tmp_path / "a.txt") as file:
                file.write(str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]


HOLDER = """
import time
from verihop.signatures.common.files import exclusive_lock

with exclusive_lock({path!r}, "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER.format(path=str(lock))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="busy"), exclusive_lock(lock, "busy"):
            pass
        holder.kill()
        holder.wait()
        with exclusive_lock(lock, "busy"):
            pass
    assert not lock.exists()
