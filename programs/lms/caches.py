"""The cache folder for converted models and LM replies, and DSPy's cache pointed at it."""

import os
import threading
from pathlib import Path

_lock = threading.Lock()
_configured: Path | None = None


def cache_dir() -> Path:
    """Return the cache folder: `VERIHOP_CACHE_DIR` if set, else `verihop` in the platform's cache folder."""
    if override := os.environ.get("VERIHOP_CACHE_DIR"):
        return Path(override).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("verihop", appauthor=False, opinion=False)


def use_reply_cache() -> None:
    """Point DSPy's cache of LM replies (memory and disk) at the cache folder; repeated calls change nothing.

    Entries are pickles, and the folder may be shared: only plain data and LiteLLM's response types are loaded from it
    (`restrict_pickle`). An entry that contains anything else is deleted and the LM is called again.
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
