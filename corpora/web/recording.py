"""The folder that records searches and pages, so that a run on the web is repeated without it.

`web.json` has the settings and an id; `searches/` and `pages/` a file for each, named by the hash of query or address.
Nothing that is recorded is replaced: a query has one ranking as long as the folder lives, also if several processes
record into it. Of a page its passages are kept, with hash and time of what they were read from.
"""

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corpora.web.engines import KNOWN, WebSettings
from signatures.common.errors import UserError, first_problem, one_line
from signatures.common.files import atomic_write, refuse_links, sha256_text
from signatures.common.strict_json import read_strict_json
from signatures.common.work import difference, json_line, writing

FILE, SEARCHES, PAGES = "web.json", "searches", "pages"
WEB = "web"  # the retriever that replays a recording
_SCHEMA = 1


def is_web(index: Path | None, retriever: str | None) -> bool:
    """Return whether the web is searched: by an engine, or its recording."""
    named = retriever is not None and (retriever in (WEB, *KNOWN) or retriever.endswith(".toml"))
    return named or (index is not None and is_recording(index))


def is_recording(folder: Path) -> bool:
    """Return whether a folder records the web."""
    try:
        return (folder / FILE).is_file()
    except OSError:  # a name that is too long
        return False


class Recording:
    """A folder of recorded searches and pages. Safe under threads and for several processes.

    Args:
        folder: Made if settings are given.
        settings: Those to record with; None reads what was recorded.

    Raises:
        UserError: There is no recording, it was made with other settings, or it is damaged.
    """

    def __init__(self, folder: Path, settings: WebSettings | None = None):
        self.folder = folder
        if settings is not None:
            made = {"schema": _SCHEMA, "id": uuid.uuid4().hex[:12], "made": _now(), "settings": settings.deciding}
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                # Hidden ones are of another process that makes the recording at this moment, `FILE` first.
                if any(path.name[0] != "." for path in folder.iterdir()) and not is_recording(folder):
                    raise UserError(f"{folder} has other files: name a new folder for the recording.")
                _write_first(folder / FILE, made)
                for part in (folder, folder / SEARCHES, folder / PAGES):
                    part.mkdir(exist_ok=True)
                    refuse_links(part)
        self.id, self.settings = self._described()
        if settings is not None and (differs := difference(self.settings.deciding, settings.deciding)):
            was = f"{folder} was recorded with {differs.field}={differs.stored}"
            raise UserError(f"{was}, not {differs.asked}: name another folder.")

    @property
    def fingerprint(self) -> str:
        """Engine, settings and recording; the same while it is recorded and when it is replayed."""
        decided = sha256_text(json.dumps(self.settings.deciding, sort_keys=True))[:8]
        return f"web:{self.settings.engine}-{decided}-{self.id}"

    def get(self, part: str, key: str) -> dict[str, Any] | None:
        """Return what is recorded for a query or an address; None if nothing is."""
        return self._read(self._path(part, key))

    def all(self, part: str) -> Iterator[dict[str, Any]]:
        """Yield all that is recorded of one kind."""
        yield from filter(None, map(self._read, sorted((self.folder / part).glob("*.json"))))

    def put(self, part: str, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Record what was found, unless something is recorded already; return what is recorded."""
        with writing(self.folder):
            _write_first(self._path(part, key), {"key": key, "time": _now(), **value})
        found = self.get(part, key)
        assert found is not None
        return found

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            found = read_strict_json(path)
            if not isinstance(found, dict):
                raise ValueError("it is not an object")
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise UserError(f"{path} is damaged ({one_line(error, 100)}): restore it, or delete it.") from None
        return found

    def _path(self, part: str, key: str) -> Path:
        return self.folder / part / f"{sha256_text(key)[:32]}.json"

    def _described(self) -> tuple[str, WebSettings]:
        path = self.folder / FILE
        try:
            stored = read_strict_json(path)
            settings = WebSettings.model_validate(stored["settings"])
            if stored["schema"] != _SCHEMA or not str(stored["id"]).isalnum():
                raise ValueError("it has another version")
        except FileNotFoundError:
            raise UserError(f"{self.folder} is not a recording of the web: name a search engine to make one.") from None
        except ValidationError as error:
            raise UserError(f"{path} is damaged ({first_problem(error)}): restore it.") from None
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(f"{path} is damaged ({one_line(error, 100)}): restore it.") from None
        return str(stored["id"]), settings


def _write_first(path: Path, value: Mapping[str, Any]) -> None:
    """Write a complete file, unless there is one; of two processes that write at once, one does."""
    if path.exists():
        return
    new = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with atomic_write(new, "wb") as file:
            file.write(json_line(value, allow_nan=False))
        try:
            os.link(new, path)
        except OSError:  # there is one by now, or the file system has no links
            if not path.exists():
                new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
