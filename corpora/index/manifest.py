"""What makes a folder an index: its `index.json`, the files listed there, and the marks of a build under way."""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from corpora.retrievers.dense import ExactKind
from corpora.retrievers.settings import RELEVANT, RetrievalSettings
from corpora.retrievers.store import OFFSETS_FILE, TEXT_FILE
from signatures.common.errors import UserError
from signatures.common.files import atomic_write, exclusive_lock, sha256_text

SCHEMA = 1
INFO_FILE, STATE_FILE, LOCK_FILE = "index.json", "build.json", "build.lock"
OWN = (INFO_FILE, STATE_FILE, LOCK_FILE, TEXT_FILE, OFFSETS_FILE, "bm25", "bm25s", "dense")
_WHOLE, _BLOCK, _BLOCKS = 4 << 20, 4096, 64  # bytes hashed whole; size and number of blocks hashed of larger files


class EmbedderInfo(BaseModel):
    """Which model made the vectors."""

    model_config = ConfigDict(frozen=True)

    id: str
    weights_hash: str


class Request(BaseModel):
    """What is asked of a build; a build goes on only under the request it began with."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    retriever: str
    corpus_hash: str
    embedder: EmbedderInfo | None = None
    settings: RetrievalSettings = RetrievalSettings()

    def fingerprint(self) -> str:
        """Return a short text that changes when corpus, engine, embedder or a setting that matters changes."""
        settings = self.settings.model_dump(include=set(RELEVANT[self.retriever]))
        return f"{self.retriever}-{sha256_text(_canonical({**self.model_dump(), 'settings': settings}))[:16]}"


class FileInfo(BaseModel):
    """Size in bytes and digest (see `file_digest`) of one file of an index."""

    bytes: int
    digest: str


class IndexInfo(Request):
    """The content of `index.json`; with it an index is finished.

    Args:
        passages: Number of passages.
        dense_kind: How vectors are searched; None without vectors.
        dimension: Numbers per vector; None without vectors.
        versions: Versions of the libraries that built the index.
        files: Path inside the folder -> what the file must look like.
    """

    passages: int
    dense_kind: ExactKind | None = None
    dimension: int | None = None
    versions: dict[str, str] = {}
    files: dict[str, FileInfo] = {}


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def file_digest(path: Path) -> str:
    """Return a SHA-256 of size and content up to 4 MiB; of larger files size and 64 blocks spread evenly.

    It finds truncated, exchanged and rebuilt files in milliseconds whatever their size, not a single flipped bit.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as file:
        if size <= _WHOLE:
            digest.update(file.read())
        else:
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def list_files(folder: Path) -> dict[str, FileInfo]:
    """Return size and digest of all index files under `folder`."""
    skipped = {INFO_FILE, STATE_FILE, LOCK_FILE}
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith((".tmp", ".lock")))
    return {
        path.relative_to(folder).as_posix(): FileInfo(bytes=path.stat().st_size, digest=file_digest(path))
        for path in paths
        if path.name not in skipped and path.relative_to(folder).parts[0] in OWN
    }


def read_info(folder: Path) -> IndexInfo:
    """Return the checked `index.json` of `folder`.

    Raises:
        UserError: There is no finished index, it has another schema, or a file is missing or changed.
    """
    path = folder / INFO_FILE
    if not path.is_file():
        if (folder / STATE_FILE).is_file():
            raise UserError(f"{folder} holds an unfinished index: run the same `verihop index` command with --resume.")
        raise UserError(f"{folder} holds no index: build one with `verihop index CORPUS --out {folder}`.")
    try:
        content = json.loads(path.read_bytes())
        found = content.get("schema_version") if isinstance(content, dict) else None
        if found != SCHEMA:
            raise UserError(f"{path} has schema version {found}, this program reads {SCHEMA}: rebuild the index.")
        digest = content.pop("digest", None)
        if digest != sha256_text(_canonical(content)):
            raise UserError(f"{path} is not as it was written: rebuild the index with --overwrite.")
        info = IndexInfo.model_validate(content)
    except (ValidationError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({str(error).splitlines()[0]}): rebuild the index.") from error
    for name, expected in info.files.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != expected.bytes or file_digest(file) != expected.digest:
            raise UserError(f"{file} is missing or not the file that was indexed: rebuild with --overwrite.")
    return info


def write_info(folder: Path, info: IndexInfo) -> None:
    """Write `index.json`: the last act of a build."""
    with atomic_write(folder / INFO_FILE) as file:
        content = info.model_dump(mode="json")
        content["digest"] = sha256_text(_canonical(content))
        file.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
    (folder / STATE_FILE).unlink(missing_ok=True)


def prepare(folder: Path, request: Request, *, resume: bool, overwrite: bool) -> bool:
    """Make `folder` ready to be built in; return False where the very index asked for is finished already.

    Raises:
        UserError: The folder holds something that the request does not allow to touch; the cure is named.
    """
    finished, begun = (folder / INFO_FILE).is_file(), (folder / STATE_FILE).is_file()
    if overwrite and (finished or begun):
        with atomic_write(folder / STATE_FILE) as file:
            file.write("{}\n")  # killed while deleting, the folder is still ours, and nothing goes on with what is left
        clear(folder)
    elif finished:
        if not resume:
            raise UserError(f"{folder} already holds an index: choose another folder or give --overwrite.")
        _same(folder, read_info(folder), request)
        return False
    elif begun:
        if not resume:
            raise UserError(f"{folder} holds an unfinished index: go on with --resume or begin anew with --overwrite.")
        _same(folder, _read_state(folder), request)
    else:
        refuse_foreign(folder)
    for left in [*folder.glob(".*.tmp"), *folder.glob("*/.*.tmp")]:  # of a killed build
        left.unlink(missing_ok=True)
    with atomic_write(folder / STATE_FILE) as file:
        file.write(_canonical(request.model_dump()) + "\n")
    return True


def refuse_foreign(folder: Path) -> None:
    """Raise UserError where `folder` is a file, or holds files and no index, begun or finished."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: choose a folder for the index.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if names - {LOCK_FILE} and not names & {INFO_FILE, STATE_FILE}:
        raise UserError(f"{folder} is not empty and holds no index: choose an empty or new folder.")


def clear(folder: Path) -> None:
    """Delete the files of an index and nothing else.

    `index.json` goes first, so that half an index never opens, and the mark of a build last, so that whatever a kill
    leaves is known to be ours.
    """
    for name in [*(name for name in OWN if name not in (STATE_FILE, LOCK_FILE)), STATE_FILE]:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes from building in `folder`; a folder made for the lock and left empty is removed.

    Raises:
        UserError: Another process is building there, or the folder is somebody else's.
    """
    if not (folder / LOCK_FILE).exists():  # where another process works, files may come and go
        refuse_foreign(folder)
    made = not folder.exists()
    busy = f"{folder} is being built by another process: wait for it or choose another."
    try:
        with exclusive_lock(folder / LOCK_FILE, busy):
            yield
    finally:
        if made:
            with contextlib.suppress(OSError):  # not empty: an index, or another process's lock
                folder.rmdir()


def _read_state(folder: Path) -> Request:
    try:
        return Request.model_validate_json((folder / STATE_FILE).read_bytes())
    except ValidationError as error:
        raise UserError(f"{folder / STATE_FILE} cannot be read: begin anew with --overwrite.") from error


def _same(folder: Path, found: Request, request: Request) -> None:
    """Raise the error that names what differs, if anything does."""
    for name in Request.model_fields:
        if getattr(found, name) != getattr(request, name):
            what = name.replace("_", " ")
            raise UserError(
                f"{folder} was begun with another {what}: choose another folder, or begin anew with --overwrite."
            )
