"""An index that may only be read: on a read-only disk, or another user's."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.index.manifest import read_info
from corpora.index.open import open_index
from corpora.retrievers.settings import make_settings
from signatures.common.errors import UserError

KINDS = {"bm25": {}, "bm25s": {}, "dense": {}, "hybrid": {"dense_kind": "ivf_rabitq"}}
ROOT = Path(__file__).parents[3]

READER = """
import json, os, sys
import bm25s, faiss, numpy, tantivy
from corpora.index.open import open_index
from corpora.retrievers.embedder import Embedder
embedder = Embedder("fake", encode=lambda texts: numpy.ones((len(texts), 64)))
embedder(["load"])
open_index.__globals__["_embedder_of"] = lambda info, model, precision: model
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert not os.access(sys.argv[1], os.W_OK)
print(json.dumps([passage.id for passage in open_index(sys.argv[1], embedder=embedder)("amber brook", 5)]))
"""


@pytest.fixture(params=KINDS)
def folder(request, corpus, fake_embedder):
    """Build an index where other users can reach it."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    settings = make_settings(**KINDS[request.param])
    build_index(corpus, root / "index", retriever=request.param, embedder=fake_embedder, settings=settings)
    yield root / "index"
    for path in (root, *(path for path in root.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    shutil.rmtree(root)


def test_opening_and_searching_write_nothing_into_the_folder(folder, fake_embedder):
    def state():
        return {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}

    before = state()
    assert open_index(folder, embedder=fake_embedder)("amber brook", 5)
    assert state() == before  # a lock file that came and went would change its folder


def test_another_user_may_read_every_file_of_an_index(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if path.stat().st_mode & 0o044 != 0o044] == []


def test_what_is_wrong_with_the_system_is_no_damage_of_the_index(hybrid_folder, fake_embedder, monkeypatch):
    def no_place():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    def no_space(folder, links):
        raise OSError(errno.ENOSPC, "No space left on device", str(links))

    monkeypatch.setattr("tempfile.gettempdir", no_place)
    with pytest.raises(UserError, match=r"No usable temporary directory found in \['/tmp'\]: set TMPDIR"):
        open_index(hybrid_folder, embedder=fake_embedder)
    monkeypatch.undo()
    monkeypatch.setattr("corpora.retrievers.bm25._link", no_space)
    with pytest.raises(OSError, match="No space left"):
        open_index(hybrid_folder, embedder=fake_embedder)


@pytest.mark.parametrize(("number", "cure"), [(errno.EACCES, "fix its permissions"), (errno.EMFILE, "try again")])
def test_an_index_that_cannot_be_read_is_not_to_be_rebuilt(number, cure, tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "index.json").write_text("{}")
    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(UserError, match=rf"index\.json cannot be read \({os.strerror(number)}\): {cure}"):
        read_info(tmp_path)


@pytest.mark.slow
def test_a_read_only_index_opens_and_answers_for_another_user(folder):
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    command = [sys.executable, "-c", READER, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 5
