"""How calls are sent over a connection."""

import sys
import warnings
from dataclasses import dataclass

from programs.parts.fanout import WIDTH
from signatures.common.errors import UserError, UserNotice

OTHER_FILES = 64  # open files left for the index, the run, the reply cache and Python
MOST_THREADS = 256  # of a command


def connections_for(threads: int) -> int:
    """Return the connections for questions processed in parallel, as many as the limit of open files allows.

    A question makes up to `programs.parts.fanout.WIDTH` calls at a time. A notice is issued if the limit allows fewer
    connections than there are threads.
    """
    needed, limit = threads * WIDTH, open_files()
    if limit is None:
        return needed
    most = max(1, limit - OTHER_FILES)
    if most < threads:
        message = f"Only {most} of {threads} threads can call a server at a time: this process may open {limit} files."
        warnings.warn(UserNotice(f"{message} Raise the limit (ulimit -n {threads + OTHER_FILES})."), stacklevel=2)
    return min(needed, most)


def most_connections() -> int:
    """Return the connections where nobody knows yet how many questions will be processed in parallel.

    They are those for `MOST_THREADS`, as many as the limit of open files allows; a connection that is not needed is
    never opened.
    """
    limit, needed = open_files(), MOST_THREADS * WIDTH
    return needed if limit is None else max(1, min(needed, limit - OTHER_FILES))


def open_files() -> int | None:
    """Return how many files this process may have open; None if the system states no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True)
class Transport:
    """Retries, timeout and concurrency limit of the calls of a connection.

    Args:
        retries: How often a call is repeated after a transient failure (5xx, a reply that cannot be read, no reply in
            time, no connection to a server that has never answered).
        timeout: Seconds that one call to a server may take.
        connections: Calls in flight at a time; should be at least as many as there are threads (`connections_for`,
            `most_connections`). A server with fewer slots gets fewer.
        retry_timeout: Seconds for which a call is repeated, without counting as `retries`, while the server limits the
            rate (429, 503) or cannot be reached although it has answered before.

    Raises:
        UserError: A number is out of range.
    """

    retries: int = 3
    timeout: float = 120.0
    connections: int = 100
    retry_timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise UserError(f"retries must be at least 0, got {self.retries}.")
        if not self.timeout > 0:
            raise UserError(f"timeout must be a positive number of seconds, got {self.timeout:g}.")
        if self.connections < 1:
            raise UserError(f"connections must be at least 1, got {self.connections}.")
        if not self.retry_timeout >= 0:
            raise UserError(f"retry_timeout must be at least 0 seconds, got {self.retry_timeout:g}.")
