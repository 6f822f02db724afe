"""Download a benchmark's official file once; its hash is recorded next to it and checked at every use.

`FILE.lock.json` contains the URL, size, SHA-256 and the server's version tag (ETag). An interrupted download
is kept as `FILE.part` and resumed if the server still has the same version.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write, sha256_file
from signatures.common.http import http_client

if TYPE_CHECKING:
    import httpx

_TIMEOUT = 60.0  # seconds without a byte
_NOTHING_LEFT = 416  # HTTP status: the requested range starts at or behind the end of the file

Progress = Callable[[int, int | None], object]


def fetch(url: str, path: Path, *, overwrite: bool = False, progress: Progress = lambda done, total: None) -> bool:
    """Download `url` to `path` and return True; return False if the unchanged file is already there.

    Args:
        url: Of a file, `http://` or `https://`.
        path: The downloaded file; its folder is created if missing.
        overwrite: Download again and forget the recorded hash.
        progress: Called with the number of bytes received and the total (None if the server does not state it).

    Raises:
        UserError: No connection, no such file, a file at `path` that was not downloaded, or a content other than the
            recorded one.
    """
    import httpx

    recorded = {} if overwrite else _read_lock(path)
    if path.exists() and not overwrite:
        if "sha256" not in recorded:
            raise UserError(f"{path} exists already and was not fetched: move it away, or set overwrite to replace it.")
        verify(path)
        return False
    part = path.with_name(f"{path.name}.part")
    try:
        tag = _download(url, part, progress)
    except httpx.HTTPStatusError as error:
        status = f"{error.response.status_code} {error.response.reason_phrase}"
        raise UserError(f"{url} cannot be downloaded ({status}): download the file manually.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise UserError(f"{url} cannot be downloaded ({reason}): check the network, then repeat to resume.") from error
    digest = sha256_file(part)
    if recorded.get("sha256", digest) != digest:
        part.unlink()
        raise UserError(f"{url} has changed since {path} was first downloaded: set overwrite to accept the new file.")
    _write_lock(path, {"url": url, "sha256": digest, "bytes": part.stat().st_size, "etag": tag})
    part.replace(path)
    _lock_of(part).unlink(missing_ok=True)
    return True


def choose(name: str, files: Mapping[str, str], file: str | None) -> tuple[str, str]:
    """Return name and URL of the file of a dataset to fetch: the named one, or the only one.

    Raises:
        UserError: The dataset has no URL, several files and none is named, or no file of that name.
    """
    if not files:
        raise UserError(f"{name} has no URL to fetch from: download its files manually.")
    if file is None and len(files) > 1:
        raise UserError(f"{name} has several files: name one with --file ({', '.join(files)}).")
    file = file or next(iter(files))
    if file not in files:
        raise unknown(f"file of {name}", file, files)
    return file, files[file]


def verify(path: Path) -> None:
    """Check a file against the hash recorded when it was fetched; a file without a record passes.

    Raises:
        UserError: The file has changed since it was downloaded.
    """
    expected = _read_lock(path).get("sha256")
    if expected is not None and sha256_file(path) != expected:
        lock = _lock_of(path).name
        raise UserError(f"{path} has changed since it was downloaded: fetch it again with overwrite, or delete {lock}.")


def _download(url: str, part: Path, progress: Progress) -> str:
    """Complete `part` and return the server's version tag of it ("" if it gives none).

    With the tag of an incomplete `part`, the server sends the rest, or everything if its file has changed.
    """
    tag = _read_lock(part).get("etag", "")
    received = part.stat().st_size if part.exists() and tag else 0
    headers = {"User-Agent": "verihop", "Accept-Encoding": "identity"}
    if received:
        headers |= {"Range": f"bytes={received}-", "If-Range": tag}
    with http_client(_TIMEOUT) as client, client.stream("GET", url, headers=headers) as reply:
        if not (received and reply.status_code == _NOTHING_LEFT):
            reply.raise_for_status()
            return _receive(reply, part, received if reply.status_code == 206 else 0, progress)
    part.unlink()  # complete, but never renamed: whether it is the same version is unknown
    return _download(url, part, progress)


def _receive(reply: "httpx.Response", part: Path, received: int, progress: Progress) -> str:
    length = reply.headers.get("Content-Length")
    total = received + int(length) if length else None
    tag = reply.headers.get("ETag", "")
    tag = "" if tag.startswith("W/") else tag  # a weak tag does not promise the same bytes
    _write_lock(part, {"etag": tag})
    with open(part, "ab" if received else "wb") as file:
        for piece in reply.iter_raw():
            file.write(piece)
            progress(file.tell(), total)
    return tag


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock.json")


def _read_lock(path: Path) -> dict[str, str]:
    lock = _lock_of(path)
    if not lock.exists():
        return {}
    try:
        content = json.loads(lock.read_text("utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{lock} is not a JSON object: delete it and fetch the file again.")
    return content


def _write_lock(path: Path, content: Mapping[str, object]) -> None:
    with atomic_write(_lock_of(path)) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
