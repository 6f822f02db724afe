"""Errors of libraries that read untrusted files become one kind."""

from collections.abc import Iterator
from contextlib import contextmanager

from signatures.common.errors import UserError, one_line


@contextmanager
def as_user_error(what: str = "it cannot be read") -> Iterator[None]:
    """Turn every error in the block into a UserError that says `what`, since hostile files cause errors of all kinds.

    A UserError, and a MemoryError, after which a process is not used again, go on as they are.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"{what} ({type(error).__name__}: {one_line(error, 100)})") from error
