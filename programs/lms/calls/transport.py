"""How calls are sent over a connection. Light: the help of commands shows these settings."""

import sys
import warnings
from dataclasses import dataclass
from typing import Annotated

from signatures.common.errors import UserNotice
from signatures.common.specs import Field, Range, check

OTHER_FILES = 64  # open files left for the index, the run, the reply cache and Python
MOST_THREADS = 256  # of a command


def connections_for(threads: int) -> int:
    """Return the connections for questions processed in parallel, as many as the limit of open files allows.

    A question makes up to `programs.parts.threads.WIDTH` calls at a time. A notice is issued if the limit allows fewer
    connections than there are threads.
    """
    from programs.parts.threads import WIDTH  # imports DSPy, which the help of commands does without

    needed, limit = threads * WIDTH, open_files()
    if limit is None:
        return needed
    most = max(1, limit - OTHER_FILES)
    if most < threads:
        message = f"Only {most} of {threads} threads can call a server at a time: this process may open {limit} files."
        warnings.warn(UserNotice(f"{message} Raise the limit (ulimit -n {threads + OTHER_FILES})."), stacklevel=2)
    return min(needed, most)


def most_connections() -> int:
    """Return the connections while the number of questions in parallel is unknown.

    They are those for `MOST_THREADS`, as many as the limit of open files allows; a connection that is not needed is
    never opened.
    """
    from programs.parts.threads import WIDTH

    limit, needed = open_files(), MOST_THREADS * WIDTH
    return needed if limit is None else max(1, min(needed, limit - OTHER_FILES))


def open_files() -> int | None:
    """Return how many files this process may have open; None if the system states no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True, kw_only=True)
class Transport:
    """How calls are sent: retries, timeout and concurrency limit.

    `connections` are calls in flight at a time; there should be at least as many as threads (`connections_for`,
    `most_connections`). A server with fewer slots gets fewer.
    """

    retries: Annotated[
        int,
        Range(0),
        Field(
            "How often a call is repeated after a transient failure, e.g. HTTP 500 or an unreadable reply.",
            trusted=False,
        ),
    ] = 3
    retry_timeout: Annotated[
        float,
        Range(0),
        Field(
            "Seconds for which a call is repeated while the server limits the rate (429, 503) or is down; these "
            "do not count as --retries.",
            trusted=False,
        ),
    ] = 600.0
    timeout: Annotated[float, Range(0.1), Field("Seconds that one call to a server may take.", trusted=False)] = 120.0
    connections: Annotated[int, Range(1)] = 100

    def __post_init__(self) -> None:
        check(self)
