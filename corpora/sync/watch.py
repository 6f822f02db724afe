"""Tell when documents have changed, by looking again and again: so it also does on network drives and in containers."""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path

from corpora.ingest.ingest import find_documents
from corpora.sync.record import stamp_of
from signatures.common.errors import UserError

_SHARE = 10  # a look takes at most so small a part of the time
_RETRY = 10  # looks after which what failed is tried again


def _never() -> bool:
    return False


def changes(
    paths: Sequence[Path | str],
    *,
    failed: Callable[[], bool] = _never,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Return what yields whenever documents have changed since this call, or since the last time, and have settled.

    Args:
        paths: As for `sync_documents`.
        failed: Tells whether what was done the last time has failed: it is tried again though nothing has changed.
        wait: Waits so many seconds.
    """
    seen = looks(paths, wait=wait)
    return settled(chain([next(seen)], seen), failed)


def settled(looks: Iterable[Hashable], failed: Callable[[], bool] = _never) -> Iterator[None]:
    """Yield when a look differs from that of the last time, and nothing has changed between it and the next look.

    Args:
        looks: What is seen now and then; the first is what is known already.
        failed: As of `changes`; asked every ten looks.
    """
    acted: list[Hashable] = []
    since = 0
    for before, now in pairwise(looks):
        acted, since = acted or [before], since + 1
        if before == now and (now != acted[0] or (since >= _RETRY and failed())):
            acted, since = [now], 0
            yield


def looks(
    paths: Sequence[Path | str], seconds: float = 1.0, *, wait: Callable[[float], object] = time.sleep
) -> Iterator[Hashable]:
    """Yield names and times of the documents without end, or why they cannot be found.

    Args:
        paths: As for `sync_documents`.
        seconds: Between two looks, at least.
        wait: Waits so many seconds.
    """
    while True:
        begun = time.monotonic()
        look = _look([Path(path) for path in paths])
        pause = max(seconds, _SHARE * (time.monotonic() - begun))
        yield look  # what is done with it, a sync say, may take long, and is no part of the look
        wait(pause)


def _look(paths: Sequence[Path]) -> Hashable:
    try:
        found = find_documents(paths).sources
    except (UserError, OSError) as error:  # also a folder that vanishes while it is looked at
        return str(error)
    seen = []
    for name, path in found.items():
        with suppress(OSError):  # it has just been removed
            seen.append((name, stamp_of(path)[0]))
    return tuple(seen)
