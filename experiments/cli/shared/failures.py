"""Errors of a command that the user can fix, as one line."""

import errno

from signatures.common.errors import one_line, user_error_within
from signatures.common.logs import message_of, quotable

_DISK = {
    errno.ENOSPC: "Free some space and run the same command again (with --resume if it has one).",
    errno.EDQUOT: "Free some space and run the same command again (with --resume if it has one).",
    errno.EFBIG: "Free some space or raise the limit on files (ulimit -f), and run the same command again.",
    errno.EACCES: "Choose a writable folder.",
    errno.EROFS: "Choose a writable folder.",
    errno.ENOENT: "Check the path.",
    errno.EEXIST: "There is a file where a folder is needed: choose another path.",
    errno.ENOTDIR: "Choose a path whose parents are folders.",
    errno.ENAMETOOLONG: "Choose a shorter path.",
    errno.EISDIR: "Name a file, not a folder.",
}


def user_error_message(error: Exception) -> str | None:
    """Return the message of an error that the user can fix; None for any other error."""
    if user_error := user_error_within(error):
        return message_of(user_error)
    if any(kind.__name__ == "LMError" for kind in type(error).__mro__):  # by name, as above
        return f"The LM refused the request: {quotable(one_line(error, 1000))}. Check its id, URL and settings."
    if isinstance(error, OSError) and error.errno in _DISK:
        return f"{error.strerror}: {error.filename or 'the output'}. {_DISK[error.errno]}"
    return None
