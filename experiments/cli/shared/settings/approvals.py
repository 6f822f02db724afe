"""Which settings files the user approved: path and content, kept in the configuration folder of the account."""

import json
from pathlib import Path

from signatures.common.errors import UserError
from signatures.common.files import atomic_write, config_dir, exclusive_lock

_NAME = "approved.json"
_BUSY = "Another command is approving a settings file: try again."


def approved_digest(path: Path) -> str | None:
    """Return the SHA-256 of the content of a settings file that was approved; None if it never was."""
    return _read().get(_key(path))


def approve(path: Path, digest: str) -> None:
    """Approve a settings file with this content, in place of any other content.

    Args:
        digest: SHA-256 of its content, in hexadecimal.

    Raises:
        UserError: The configuration folder cannot be written.
    """
    _write(path, digest)


def withdraw(path: Path) -> None:
    """Approve a settings file no more.

    Raises:
        UserError: The configuration folder cannot be written.
    """
    _write(path, None)


def _key(path: Path) -> str:
    return str(path.resolve())


def _read() -> dict[str, str]:
    """Return all approvals; a damaged file has none, nor has an account without a home folder."""
    try:
        found = json.loads((config_dir() / _NAME).read_bytes())
    except (UserError, OSError, ValueError, RecursionError):
        return {}
    texts = found.items() if isinstance(found, dict) else ()
    return {path: digest for path, digest in texts if isinstance(digest, str)}


def _write(path: Path, digest: str | None) -> None:
    file = config_dir() / _NAME
    try:
        with exclusive_lock(file.with_suffix(".lock"), _BUSY), atomic_write(file) as out:
            kept = {**_read(), _key(path): digest}
            json.dump({name: value for name, value in kept.items() if value is not None}, out, indent=1, sort_keys=True)
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}. Name the settings file with --config.") from None
