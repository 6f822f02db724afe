"""The cache folder for converted models and LM replies, and DSPy's cache pointed at it."""

import os
import threading
from pathlib import Path

from signatures.common.errors import UserError
from signatures.common.files import cache_dir

REPLIES = "replies.sqlite"
REPLY_BYTES = 2_000_000_000  # of the file with LM replies, by default
FEWEST_BYTES = 1_000_000
_BYTES_VARIABLE = "VERIHOP_CACHE_BYTES"

_lock = threading.Lock()
_configured: tuple[Path, int] | None = None


def reply_cache_bytes() -> int:
    """Return the size of the reply cache at most: `VERIHOP_CACHE_BYTES` if set, else 2 GB.

    Raises:
        UserError: The variable is not a number of at least 1,000,000.
    """
    text = os.environ.get(_BYTES_VARIABLE)
    if not text:
        return REPLY_BYTES
    try:
        limit = int(float(text))
    except (ValueError, OverflowError):
        limit = 0
    if limit < FEWEST_BYTES:
        raise UserError(f"{_BYTES_VARIABLE} must be a number of bytes of at least {FEWEST_BYTES:,}, got {text!r}.")
    return limit


def use_reply_cache() -> None:
    """Point DSPy's cache at the file with LM replies in the cache folder; repeated calls change nothing.

    The file contains JSON only, so that nothing in a shared folder is executed.

    Raises:
        UserError: `VERIHOP_CACHE_BYTES` is not a size.
    """
    global _configured
    wanted = cache_dir() / REPLIES, reply_cache_bytes()
    with _lock:
        if wanted == _configured:
            return
        import dspy

        from programs.lms.calls.reply_cache import ReplyCache
        from programs.lms.calls.reply_store import ReplyStore

        dspy.cache = ReplyCache(ReplyStore(wanted[0], max_bytes=wanted[1]))
        _configured = wanted
