"""Where converted models and cached replies are kept, and DSPy's cache pointed there."""

import os
import sys
import threading
from pathlib import Path

_lock = threading.Lock()
_configured: Path | None = None


def cache_dir() -> Path:
    """Return the cache folder: `VERIHOP_CACHE_DIR` when set, else the platform's own place for caches."""
    if override := os.environ.get("VERIHOP_CACHE_DIR"):
        return Path(override).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser() / "verihop"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/verihop").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "verihop"


def use_reply_cache() -> None:
    """Point DSPy's cache of LM replies (memory and disk) at the cache folder; repeated calls change nothing.

    Entries are pickles, and the folder may be shared: only plain data and LiteLLM's response types are read from it
    (`restrict_pickle`). An entry that holds anything else is deleted and the LM asked again.
    """
    global _configured
    folder = cache_dir() / "replies"
    with _lock:
        if folder == _configured:
            return
        import dspy

        dspy.configure_cache(
            enable_disk_cache=True, enable_memory_cache=True, disk_cache_dir=str(folder), restrict_pickle=True
        )
        _configured = folder
