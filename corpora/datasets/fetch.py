"""Download a benchmark's official file once; its hash is recorded beside it and checked whenever it is used.

`FILE.lock.json` holds address, size, SHA-256 and the server's version mark (ETag). An interrupted download stays as
`FILE.part` and goes on where it stopped, if the server still has the same version.
"""

import json
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write, sha256_file

_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without a byte

Progress = Callable[[int, int | None], object]


def fetch(url: str, path: Path, *, overwrite: bool = False, progress: Progress = lambda done, total: None) -> bool:
    """Download `url` to `path` and return True; return False where the file stands there as it was downloaded.

    Args:
        url: Of a file, `http://` or `https://`.
        path: Where it shall stand; its folder is made when missing.
        overwrite: Download anew and forget the recorded hash.
        progress: Called with the bytes that are there, and how many there will be (None where the server is silent).

    Raises:
        UserError: No connection, no such file, a file that is not ours in the way, or a content other than recorded.
    """
    recorded = {} if overwrite else _read_lock(path)
    if path.exists() and not overwrite:
        if "sha256" not in recorded:
            raise UserError(f"{path} exists already and was not fetched: move it away, or replace it with --overwrite.")
        verify(path)
        return False
    part = path.with_name(f"{path.name}.part")
    try:
        mark = _download(url, part, progress)
    except HTTPError as error:
        raise UserError(f"{url} cannot be had ({error.code} {error.reason}): get the file by hand.") from error
    except (OSError, HTTPException) as error:
        if isinstance(error, OSError) and error.filename is not None:  # ours to write, not the server's to send
            raise
        why = getattr(error, "reason", error)
        raise UserError(f"{url} cannot be had ({why}): check the network; the same command goes on.") from error
    digest = sha256_file(part)
    if recorded.get("sha256", digest) != digest:
        part.unlink()
        raise UserError(f"{url} has another content than it had when {path} was recorded: accept it with --overwrite.")
    _write_lock(path, {"url": url, "sha256": digest, "bytes": part.stat().st_size, "etag": mark})
    part.replace(path)
    _lock_of(part).unlink(missing_ok=True)
    return True


def choose(name: str, files: Mapping[str, str], file: str | None) -> tuple[str, str]:
    """Return name and address of the file to fetch of a data set: the only one, or the one that is named.

    Raises:
        UserError: The set has no address, several and none is named, or none of that name.
    """
    if not files:
        raise UserError(f"{name} has no address to fetch from: get its files by hand (`verihop data list`).")
    if file is None and len(files) > 1:
        raise UserError(f"{name} has several files: name one with --file ({', '.join(files)}).")
    file = file or next(iter(files))
    if file not in files:
        raise unknown(f"file of {name}", file, files)
    return file, files[file]


def verify(path: Path) -> None:
    """Check a file against the hash that was recorded when it was fetched; a file without a record passes.

    Raises:
        UserError: The file is not as it was downloaded.
    """
    expected = _read_lock(path).get("sha256")
    if expected is not None and sha256_file(path) != expected:
        raise UserError(
            f"{path} is not as it was downloaded: fetch it again with --overwrite, or delete {_lock_of(path).name}."
        )


def _download(url: str, part: Path, progress: Progress) -> str:
    """Bring `part` to its full length and return the server's version mark of it ("" without one).

    A mark beside an unfinished `part` makes the server send the rest, or everything if its file has changed.
    """
    mark = _read_lock(part).get("etag", "")
    there = part.stat().st_size if part.exists() and mark else 0
    headers = {"User-Agent": "verihop", "Accept-Encoding": "identity"}
    if there:
        headers |= {"Range": f"bytes={there}-", "If-Range": mark}
    try:
        with urlopen(Request(url, headers=headers), timeout=_TIMEOUT) as reply:
            return _receive(reply, part, there if reply.status == 206 else 0, progress)
    except HTTPError as error:
        if error.code != 416 or not there:  # 416: nothing is left to send, so a whole `part` was not renamed
            raise
    part.unlink()
    return _download(url, part, progress)


def _receive(reply: HTTPResponse, part: Path, there: int, progress: Progress) -> str:
    length = reply.headers.get("Content-Length")
    total = there + int(length) if length else None
    mark: str = reply.headers.get("ETag") or ""
    mark = "" if mark.startswith("W/") else mark  # a weak mark does not promise the same bytes
    _write_lock(part, {"etag": mark})
    with open(part, "ab" if there else "wb") as file:
        while piece := reply.read(_CHUNK):
            file.write(piece)
            progress(file.tell(), total)
        done = file.tell()
    if total is not None and done < total:
        raise HTTPException(f"it ended after {done} of {total} bytes")
    return mark


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock.json")


def _read_lock(path: Path) -> dict[str, str]:
    lock = _lock_of(path)
    if not lock.exists():
        return {}
    try:
        content = json.loads(lock.read_text("utf-8"))
    except ValueError as error:
        raise UserError(f"{lock} cannot be read: delete it and fetch the file again.") from error
    if not isinstance(content, dict):
        raise UserError(f"{lock} cannot be read: delete it and fetch the file again.")
    return content


def _write_lock(path: Path, content: Mapping[str, object]) -> None:
    with atomic_write(_lock_of(path)) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
